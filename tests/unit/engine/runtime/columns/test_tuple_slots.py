"""Keys of several columns have the slots that the same keys have as tuples of Python."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy
import pyarrow
import pytest

from penstock.engine.runtime.columns.keys import keys_of, tuple_keys
from penstock.engine.state.arrays import tuple_index
from penstock.engine.state.arrays.key_slots import KeySlots
from penstock.engine.state.arrays.row_keys import BatchKeys, IntegerKeys, TupleKeys

KINDS = {
    "text and day": (lambda r: r.choice(["a", "b", None, f"c{r.randrange(3_000)}"]), pyarrow.string()),
    "number": (lambda r: r.choice([None, 0, -1, r.randrange(-(1 << 40), 1 << 40)]), pyarrow.int64()),
    "small": (lambda r: r.choice([None, *range(5)]), pyarrow.int32()),
    "flag": (lambda r: r.choice([None, True, False]), pyarrow.bool_()),
}


def columns(random: Random, rows: int, kinds: list[str]) -> list[Any]:
    return [pyarrow.array([KINDS[kind][0](random) for _ in range(rows)], KINDS[kind][1]) for kind in kinds]


@pytest.mark.parametrize("seed", range(6))
def test_tuples_have_the_slots_of_python(seed: int) -> None:
    """Rows of two keys would share their state, or one key would have two."""
    random = Random(seed)
    kinds = random.choices(list(KINDS), k=random.randint(2, 4))
    slots, expected = KeySlots(), {}
    for _ in range(8):
        batch = columns(random, random.randrange(1, 400), kinds)
        rows = keys_of(batch).to_list()
        keys = tuple_keys(batch)
        assert isinstance(keys, TupleKeys) and keys.to_list() == rows
        # As after a restore, and as from a table behind, keys come as tuples, too.
        found = slots.slots_of(keys if random.random() < 0.7 else keys_of(batch)).tolist()
        for row in rows:
            expected.setdefault(row, len(expected))
        assert found == [expected[row] for row in rows]
    assert len(slots) == len(expected) and slots.has_others
    assert slots.keys(slice(None)) == list(expected)
    some = numpy.array(random.sample(range(len(expected)), min(20, len(expected))))
    assert slots.keys(some) == [list(expected)[slot] for slot in some.tolist()]
    assert [slots.slot_of(key) for key in expected] == list(expected.values())
    assert slots.slot_of(("no", "key")) is None and slots.slot_of(7) is None
    assert slots.find(BatchKeys([*expected, ("no",)], numpy.arange(len(expected) + 1)))[-1] == -1


def test_tuples_that_need_too_many_bits_are_keys_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers would wrap, and two keys be one."""
    monkeypatch.setattr(tuple_index, "BITS", 32)
    random, slots, expected = Random(1), KeySlots(), {}
    for _ in range(6):
        batch = columns(random, 300, ["number"] * 4)
        for row in keys_of(batch).to_list():
            expected.setdefault(row, len(expected))
        assert slots.slots_of(tuple_keys(batch)).tolist() == [expected[row] for row in keys_of(batch).to_list()]
    assert slots.keys(slice(None)) == list(expected)


def test_other_keys_among_tuples_have_slots_of_their_own() -> None:
    """A table that was restored with keys of several kinds would lose some."""
    slots = KeySlots()
    batch = columns(Random(3), 50, ["number", "small"])
    found = slots.slots_of(tuple_keys(batch)).tolist()
    assert slots.slots_of(IntegerKeys(numpy.array([5, 5]))).tolist() == [max(found) + 1] * 2
    assert slots.slots_of(BatchKeys([(1,), "a"], numpy.arange(2))).tolist() == [max(found) + 2, max(found) + 3]
    assert slots.slots_of(tuple_keys(batch)).tolist() == found
