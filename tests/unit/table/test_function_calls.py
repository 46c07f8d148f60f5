"""Calls by name: arguments are checked with Flink's words, columns come out in the shape they went in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.table.functions.calls import call, find, functions, result_type
from penstock.table.functions.errors import InvalidCallError, UnknownFunctionError
from penstock.table.functions.registry import Context
from penstock.table.functions.signatures import parameters_of
from penstock.table.logical_types import INT, STRING, parse


def test_arguments_of_a_wrong_type_are_refused_with_the_signatures() -> None:
    """The user would not know what the function accepts."""
    with pytest.raises(InvalidCallError) as raised:
        result_type("REGEXP_COUNT", [INT, STRING])
    assert str(raised.value) == (
        "Invalid function call:\nREGEXP_COUNT(INT, STRING)\nInvalid input arguments. Expected signatures are:\n"
        "REGEXP_COUNT(str <CHARACTER_STRING>, regex <CHARACTER_STRING>)"
    )


def test_a_wrong_number_of_arguments_is_refused() -> None:
    """An argument would be ignored."""
    with pytest.raises(InvalidCallError, match=r"No match found for function signature ARRAY_MAX\(<INTEGER ARRAY>"):
        result_type("ARRAY_MAX", [parse("ARRAY<INT>")] * 2)


def test_an_unknown_function_is_named() -> None:
    """The user would look for the cause elsewhere."""
    with pytest.raises(UnknownFunctionError, match="the function SOUNDEX is not supported"):
        find("soundex")


def test_results_are_nullable_if_an_argument_is() -> None:
    """A sink would refuse a column that is never NULL, or accept one that may be."""
    text = STRING.with_nullability(False)
    assert str(result_type("UPPER", [text])) == "STRING NOT NULL"
    assert str(result_type("CONCAT", [text, STRING])) == "STRING"
    assert str(result_type("COALESCE", [STRING, text])) == "STRING NOT NULL"
    assert str(result_type("IS NULL", [STRING])) == "BOOLEAN NOT NULL"


def test_literals_stay_literals() -> None:
    """Constants would be computed again for each row."""
    assert call("UPPER", [pa.scalar("a")], [STRING]) == pa.scalar("A")
    assert call("+", [pa.scalar(1, pa.int32())] * 2, [INT, INT]) == pa.scalar(2, pa.int32())
    assert len(call("RAND", [], [], context=Context(rows=3))) == 3


def test_slices_are_read_from_their_start() -> None:
    """Batches that share memory would see each other's rows."""
    text = pa.array(["x/y", "a/b/c", None, "d"]).slice(1)
    assert call("SPLIT_INDEX", [text, pa.scalar("/"), pa.scalar(1, pa.int32())], [STRING, STRING, INT]).to_pylist() == [
        "b", None, None,
    ]  # fmt: skip
    arrays = pa.array([[9], [1, 2], None], pa.list_(pa.int32())).slice(1)
    types = [parse("ARRAY<INT>")]
    assert call("CAST", [arrays], types, result=parse("ARRAY<BIGINT>")).to_pylist() == [[1, 2], None]
    times = pa.array(["x", "2024-01-01 00:00:00", "2024-01-01 00:00:01"]).slice(1)
    assert [one.second for one in call("TO_TIMESTAMP", [times], [STRING]).to_pylist()] == [0, 1]


def test_an_empty_batch_gives_an_empty_column() -> None:
    """A batch that a filter has emptied would stop the job."""
    empty = pa.array([], pa.string())
    for name in ("UPPER", "CHAR_LENGTH", "MD5", "TO_TIMESTAMP", "JSON_UNQUOTE", "REVERSE", "TO_DATE"):
        assert len(call(name, [empty], [STRING])) == 0
    for kind in ("INT", "DOUBLE", "DECIMAL(5, 2)", "BOOLEAN", "TIMESTAMP(3)", "BYTES", "CHAR(3)"):
        assert len(call("CAST", [empty], [STRING], result=parse(kind))) == 0


@pytest.mark.parametrize("condition", [[True] * 3, [False] * 3, [None] * 3, [True, False, None], []])
@pytest.mark.parametrize("constants", [(), (1,), (2,), (1, 2)])
def test_rows_of_one_kind_have_the_value_of_that_kind(condition: list[bool | None], constants: tuple[int, ...]) -> None:
    """A chunk without persons would have the times of persons, or one value where it needs a column."""
    rows, types = len(condition), [parse("BOOLEAN"), INT, INT]
    columns = [
        pa.array(condition, pa.bool_()),
        pa.scalar(1, pa.int32()) if 1 in constants else pa.array([1, None, 3][:rows], pa.int32()),
        pa.scalar(2, pa.int32()) if 2 in constants else pa.array([4, 5, None][:rows], pa.int32()),
    ]
    values, others = ([one.as_py()] * rows if isinstance(one, pa.Scalar) else one.to_pylist() for one in columns[1:])
    expected = [value if holds else other for holds, value, other in zip(condition, values, others, strict=True)]
    for name in ("IF", "CASE"):
        found = call(name, columns, types, context=Context(rows=rows))
        assert isinstance(found, pa.Array) and found.type == pa.int32()
        assert found.to_pylist() == expected


def test_each_signature_can_be_checked() -> None:
    """A misspelt family would show itself only in a user's query."""
    for function in functions().values():
        for signature in function.signatures:
            parameters_of(signature)


def test_importing_the_table_package_does_not_import_arrow() -> None:
    """`import penstock.table` would take a third of a second."""
    source = str(Path(penstock.__file__).parents[1])
    program = (
        f"import sys; sys.path.insert(0, {source!r}); import penstock.table, penstock.table.logical_types;"
        " print('pyarrow' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert result.stdout == "False\n"
