"""Lists and dicts as keys."""

import copy
import pickle
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common.types import Row
from penstock.common.values.copies import independent_copy
from penstock.engine.state.container_keys import DictKey, ListKey, as_key, as_keys, is_convertible, stored_map_key
from penstock.engine.state.keys import KeyTypeError, encode_key

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([1.0, 0.5, "a", b"a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", 1]), inner, max_size=3)
        | st.lists(inner, max_size=2).map(tuple)
        | st.builds(Row, inner)
    ),
    max_leaves=6,
)


@given(VALUES, VALUES)
def test_equal_keys_are_one_key_and_others_are_not(first, second):
    """The records of one key would be spread over several states, or two keys would share one."""
    one, two = as_key(first), as_key(second)
    assert (one == two) == (first == second) == (encode_key(one) == encode_key(two))
    if first == second:
        assert hash(one) == hash(two)


@given(VALUES)
def test_a_key_survives_a_checkpoint(value):
    """A restored job would not find the state of such a key."""
    key = as_key(value)
    for again in (pickle.loads(pickle.dumps(key)), copy.deepcopy(key), as_key(key)):
        assert again == value
        assert type(again) is type(key)
        assert hash(again) == hash(key)
        assert encode_key(again) == encode_key(key)


def test_the_order_of_entries_does_not_count():
    """Two dicts that are equal would be two keys."""
    assert encode_key(as_key({"a": 1, "b": [2]})) == encode_key(as_key({"b": [2], "a": 1}))


def test_a_list_is_not_the_tuple_of_its_items():
    """Keys that Python calls different would share their state."""
    assert encode_key(as_key([1, 2])) != encode_key((1, 2))
    assert encode_key(as_key({})) != encode_key(as_key([]))


def test_the_record_may_change():
    """A function that changes the list in its record would move the key's state."""
    record = [1, [2]]
    key = as_key(record)
    record[1].append(3)
    assert key == [1, [2]]


@pytest.mark.parametrize(
    "change",
    [lambda key: key.append(1), lambda key: key.__setitem__(0, 1), lambda key: key.sort(), lambda key: key[1].pop()],
)
def test_a_key_cannot_be_changed(change):
    """State would stay behind under the bytes of the former key."""
    with pytest.raises(TypeError, match="a key can't be changed"):
        change(as_key([1, [2]]))
    with pytest.raises(TypeError, match="a key can't be changed"):
        as_key({"a": 1}).update(b=2)


def test_what_is_emitted_is_a_plain_list():
    """A sink would receive an unknown class, and a function a list to which it cannot append."""
    copied = independent_copy((as_key([1, [2]]), as_key({"a": [1]})))
    assert copied == ([1, [2]], {"a": [1]})
    assert [type(part) for part in (*copied, copied[0][1], copied[1]["a"])] == [list, dict, list, list]


def test_only_what_needs_it_is_converted():
    """Every key of every record would be checked separately."""
    plain = ["a", 1, 2.0, None]
    tuples = [("a", 1), ("b", 2)]
    assert as_keys(plain) is plain
    assert as_keys(tuples) is tuples
    assert list(map(type, as_keys(["a", [1], {"b": 1}]))) == [str, ListKey, DictKey]
    assert type(as_keys([("a", [1])])[0][1]) is ListKey
    among_others = as_keys([("a", None), ("b", [1]), ("c", None)])
    assert [type(key[1]) for key in among_others] == [type(None), ListKey, type(None)]


@pytest.mark.parametrize("nested", [lambda one: one, lambda one: (one, 1), lambda one: [one]])
def test_the_record_may_change_where_its_key_has_a_hash(nested):
    """The key in state and timers was the record's own object: each change of it lost the state behind it."""
    of_record = Row(name="ann")
    kept = [*as_keys([nested(of_record)]), as_key(nested(of_record))]
    if not isinstance(nested(of_record), list):
        kept.append(stored_map_key(nested(of_record)))
    of_record["name"] = "bob"
    assert {encode_key(key) for key in kept} == {encode_key(as_key(nested(Row(name="ann"))))}


def test_a_key_that_was_kept_stays_itself():
    """A map would refuse keys of the stream, or copy each of them."""
    for key in (as_key([1]), as_key({"a": 1}), as_key(("a", [1])), ("a", 1), Frozen("ann")):
        assert stored_map_key(key) is key
    with pytest.raises(TypeError, match="unhashable"):
        stored_map_key([1])


@dataclass(frozen=True)
class Frozen:
    name: str


@pytest.mark.parametrize("key", [{1}, [{1}], ([object()],), bytearray(b"a")])
def test_what_has_no_canonical_bytes_is_refused(key):
    """Equal keys would have different bytes, and their records would go to different subtasks."""
    assert not is_convertible(key)
    with pytest.raises(KeyTypeError):
        encode_key(as_key(key))
