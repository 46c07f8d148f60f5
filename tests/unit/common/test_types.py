import copy
import pickle

import cloudpickle
import pytest

from penstock.common import Row, RowKind
from penstock.common.types import row_identity


def test_fields_by_position_name_and_attribute() -> None:
    """A user's row["delay"] and row.delay would be different fields, or none."""
    row = Row(origin="JFK", delay=7)
    assert (row[0], row["delay"], row.delay, row[0:2]) == ("JFK", 7, 7, ["JFK", 7])
    row["delay"] = 8
    row[0] = "LGA"
    assert list(row) == ["LGA", 8] and len(row) == 2
    assert "delay" in row and "LGA" not in row and "LGA" in Row("LGA")
    assert row.as_dict() == {"origin": "LGA", "delay": 8}


def test_factory_makes_named_rows() -> None:
    """The Person = Row("id", "name") idiom of PyFlink programs would break."""
    person = Row("id", "name")
    assert person(1, "a") == Row(id=1, name="a")
    assert person(1).as_dict() == {"id": 1}
    with pytest.raises(ValueError, match="2 fields, got 3 values"):
        person(1, "a", "b")
    with pytest.raises(TypeError, match="only a Row of field names"):
        Row(1, [2])(3, 4)


def test_equality_is_that_of_pyflink() -> None:
    """Rows that differ in kind or names would be merged, or equal rows with another field order kept apart."""
    assert Row(a=1, b=2) == Row(b=2, a=1)
    assert Row(a=1, b=2) != Row(a=2, b=1)
    assert Row(a=1) != Row(b=1) and Row(a=1) != Row(1) and Row(1) != (1,)
    assert Row(1) != Row.of_kind(RowKind.DELETE, 1)


def test_equal_rows_hash_equal() -> None:
    """A dict with rows as keys would miss an existing key (PyFlink's own Row has this fault)."""
    assert hash(Row(a=1, b=2)) == hash(Row(b=2, a=1))
    assert len({Row(a=1, b=2), Row(b=2, a=1), Row(1, 2), Row(1, 2)}) == 2
    assert row_identity(Row(b=2, a=1)) == row_identity(Row(a=1, b=2)) == (("a", "b"), (1, 2), 0)


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_rows_survive_pickling(dumps: object) -> None:
    """Names or kinds would be lost between tasks."""
    rows = [Row(1, None), Row(a=1), Row.of_kind(RowKind.UPDATE_BEFORE, x=Row(y=[1])), Row()]
    restored = pickle.loads(dumps(rows))  # type: ignore[operator]
    assert restored == rows
    assert [row.get_row_kind() for row in restored] == [row.get_row_kind() for row in rows]


def test_names_are_shared_in_a_pickled_chunk() -> None:
    """Buffers would contain the field names once per row."""
    rows = [Row(departure_airport=i, arrival_airport=i) for i in range(100)]
    assert len(pickle.dumps(rows, protocol=5)) < 100 * 20


def test_a_copy_is_independent() -> None:
    """Changing a copy would change a row in state."""
    row = Row(a=1)
    other = copy.copy(row)
    other["a"] = 2
    assert row.a == 1 and copy.deepcopy(row) == row


def test_as_dict_goes_into_rows_only_if_asked() -> None:
    """JSON written from nested rows would contain reprs."""
    row = Row(key=1, value=Row(a=[Row(b=2)], c={"d": Row(e=3)}))
    assert row.as_dict()["value"] == Row(a=[Row(b=2)], c={"d": Row(e=3)})
    assert row.as_dict(True) == {"key": 1, "value": {"a": [{"b": 2}], "c": {"d": {"e": 3}}}}
    with pytest.raises(TypeError, match="no field names"):
        Row(1).as_dict()


def test_wrong_names_are_refused_in_words() -> None:
    """A misspelt field name would be hard to find."""
    with pytest.raises(ValueError, match="fields a, b has no field 'c'"):
        Row(a=1, b=2)["c"]
    with pytest.raises(ValueError, match="have no names"):
        Row(1)["a"]
    with pytest.raises(AttributeError, match="'c'"):
        _ = Row(a=1).c
    with pytest.raises(ValueError, match="either positional or named"):
        Row(1, a=2)
    row = Row(1, 2)
    row.set_field_names(["a", "b"])
    assert row.get_fields_by_names(["b", "a"]) == [2, 1]
    for names in (["a"], ["a", "a"]):
        with pytest.raises(ValueError):
            row.set_field_names(names)


def test_slices_keep_the_length() -> None:
    """The length of a row would no longer match its schema."""
    row = Row(1, 2, 3)
    row[0:2] = [8, 9]
    assert list(row) == [8, 9, 3]
    with pytest.raises(ValueError, match="the length of a Row is fixed"):
        row[0:2] = [1]
    assert str(RowKind.UPDATE_AFTER) == "+U" and repr(Row(a="x")) == "Row(a='x')" and repr(Row(1)) == "<Row(1)>"
