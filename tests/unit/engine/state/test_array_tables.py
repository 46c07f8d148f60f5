"""Tables of arrays: what they hold, and snapshots that are written while the tables go on changing."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy
import pyarrow
import pytest
from tests.first_cases import first_of
from tests.unit.engine.state.written_state import ALL_GROUPS, GROUPS, files_in_memory

from penstock.common.functions.field_aggregates import AVG, COUNT, FIRST, FLOAT, INTEGER, SUM, FieldAggregate
from penstock.engine.runtime.columns.aggregate_classes import arrays_of
from penstock.engine.runtime.columns.keyed_arrays import KeyedArrays
from penstock.engine.runtime.columns.keys import row_keys
from penstock.engine.state.aggregates_schema import aggregates_schema
from penstock.engine.state.arrays import array_table, frozen_arrays, frozen_rows
from penstock.engine.state.arrays.array_table import ArrayTable
from penstock.engine.state.arrays.sliced_arrays import SlicedArrays
from penstock.engine.state.arrays.stored_columns import packed, unpacked
from penstock.engine.state.handles import KeyedFile
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.sliced import SlicedTable
from penstock.engine.state.snapshot.files import restore_keyed, write_columns, write_keyed
from penstock.engine.state.tables import FrozenTable, Table
from penstock.hosts.simulator.storage import MemoryStorage
from penstock.state_processor.new_tables import finished

AGGREGATES = [
    FieldAggregate("count", COUNT),
    FieldAggregate("sum", SUM, "n"),
    FieldAggregate("mean", AVG, "n"),
    FieldAggregate("first", FIRST, "f"),
]
TYPES = [None, numpy.int64, numpy.int64, numpy.float64]


def new_table() -> ArrayTable:
    """Return an empty table."""
    return ArrayTable(arrays_of(AGGREGATES, TYPES))


def add(table: ArrayTable, keys: list[Any], values: list[int | None]) -> None:
    """Add records."""
    numbers = pyarrow.array(values, pyarrow.int64())
    floats = pyarrow.array([None if value is None else value % 7 + 0.5 for value in values], pyarrow.float64())
    KeyedArrays(table).add(row_keys([pyarrow.array(keys)]), [None, numbers, numbers, floats])


def content(table: Any) -> dict[Any, Any]:
    """Return the entries of a table now."""
    return dict(table.first_items())


class Checkpoints:
    """A table with the chain of its files."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.storage: MemoryStorage = files_in_memory()
        self.chain: list[KeyedFile] = []

    def begin(self, full: bool) -> Iterator[None]:
        """Freeze now. The iterator writes the files step by step, and then they are the last checkpoint."""
        full = full or not self.chain
        frozen = self.table.freeze(full)

        def write() -> Iterator[None]:
            file = yield from write_keyed(self.storage, str(len(self.storage.files)), {"t": frozen}, GROUPS)
            self.chain = [file] if full else [*self.chain, file]
            frozen.release()

        return write()

    def restored(self, into: Table, groups: range = ALL_GROUPS) -> Any:
        """Return a table with the last checkpoint."""
        restore_keyed(self.storage, self.chain, groups, {"t": into})
        return into


@pytest.fixture(params=[4, 1 << 15])
def small_blocks(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tables of a few rows have several blocks, spans and pieces."""
    monkeypatch.setattr(frozen_rows, "BLOCK_ROWS", request.param)
    monkeypatch.setattr(frozen_arrays, "SPAN_ROWS_MIN", request.param)
    monkeypatch.setattr(frozen_arrays, "PIECE_ROWS", request.param)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("seed", first_of(3, range(6)))
@pytest.mark.parametrize("of_texts", [False, True])
def test_checkpoints_have_what_was_there_when_they_were_frozen(seed: int, of_texts: bool) -> None:
    """A key that changes while its snapshot is written would be stored as it was later, twice, or not at all."""
    random = Random(seed)
    table = new_table()
    checkpoints = Checkpoints(table)
    keys: list[Any] = [str(number) if of_texts else number * (1 << 40) for number in range(50)]
    for number in range(6):
        for _ in range(random.randrange(4)):
            change(table, random, keys)
        expected = content(table)
        assert table.alive == len(expected)
        writing = checkpoints.begin(full=number % 3 == 0)
        for _ in writing:
            if random.random() < 0.5:
                change(table, random, keys)
        assert content(checkpoints.restored(new_table())) == expected
        # The operator on rows goes on with it.
        assert dict(checkpoints.restored(LayeredTable()).items()) == expected
        halves = [checkpoints.restored(new_table(), groups) for groups in (range(3), range(3, 8))]
        assert {**content(halves[0]), **content(halves[1])} == expected and len(expected) == sum(
            half.alive for half in halves
        )


def change(table: ArrayTable, random: Random, keys: list[Any]) -> None:
    """Change or remove a few keys."""
    chosen = random.choices(keys, k=random.randrange(1, 20))
    if random.random() < 0.2:
        table.remove(table.slots_of(row_keys([pyarrow.array(chosen)])))
    else:
        add(table, chosen, [random.choice([None, 1, -5, 1 << 61]) for _ in chosen])


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("seed", first_of(3, range(6)))
@pytest.mark.parametrize("of_texts", [False, True])
def test_checkpoints_of_slices(seed: int, of_texts: bool) -> None:
    """Windows that end while a snapshot is written would be lost in it, or be there again in the next."""
    random = Random(seed)
    slices = SlicedArrays(new_table)
    checkpoints = Checkpoints(slices)
    keys: list[Any] = [str(number) if of_texts else number for number in range(12)]

    def change_slices() -> None:
        start = random.randrange(5) * 10
        if random.random() < 0.3:
            list(slices.drop(start))
        else:
            chosen = random.choices(keys, k=random.randrange(1, 8))
            add(slices.arrays_at(start), chosen, [random.choice([None, 3, 1 << 62]) for _ in chosen])

    for number in range(6):
        for _ in range(random.randrange(6)):
            change_slices()
        expected = content(slices)
        for _ in checkpoints.begin(full=number % 4 == 0):
            if random.random() < 0.5:
                change_slices()
        restored = checkpoints.restored(SlicedArrays(new_table))
        assert content(restored) == expected and all(restored.slices.values())
        assert dict(checkpoints.restored(SlicedTable()).first_items()) == expected


def test_a_snapshot_that_another_thread_writes() -> None:
    """Half of a change would be in a snapshot: the writer does not wait for the task."""
    table = new_table()
    keys = list(range(50_000))
    add(table, keys, [1] * len(keys))
    checkpoints = Checkpoints(table)
    for number in range(2, 8):
        expected = content(table)
        writing = checkpoints.begin(full=number % 2 == 0)
        writer = threading.Thread(target=list, args=[writing])
        writer.start()
        random = numpy.random.default_rng(number)
        while writer.is_alive():
            some = random.integers(0, len(keys), 2_000)
            add(table, some.tolist(), [number] * len(some))
        writer.join()
        assert content(checkpoints.restored(new_table())) == expected


def test_an_increment_has_what_has_changed() -> None:
    """A checkpoint of a large table would write all of it."""
    table = new_table()
    add(table, list(range(20_000)), [1] * 20_000)
    checkpoints = Checkpoints(table)
    finished(checkpoints.begin(full=True))
    add(table, list(range(0, 20_000, 100)), [1] * 200)
    finished(checkpoints.begin(full=False))
    finished(checkpoints.begin(full=False))
    whole, changed, nothing = (file.bytes for file in checkpoints.chain)
    assert 0 < changed < whole / 40 and nothing < 100


def test_a_snapshot_that_failed_leaves_the_table_as_it_is() -> None:
    """Each change would be copied for a snapshot that nobody writes."""
    table = new_table()
    add(table, [1, 2], [5, 6])
    frozen = table.freeze(True)
    frozen.release()
    add(table, [1], [7])
    assert content(table)[1][:2] == (2, 12) and not any(True for _ in frozen.pieces() if not frozen.full)


@pytest.mark.parametrize("of_texts", [False, True])
def test_savepoints_are_tables_of_rows(of_texts: bool) -> None:
    """A savepoint could be continued on columns only."""
    table = new_table()
    keys: list[Any] = ["a", "b", "c"] if of_texts else [1, -2, 1 << 50]
    add(table, keys, [1, None, 1 << 62])
    storage = files_in_memory()
    file = finished(write_columns(storage, "s", ("t", table.freeze(True)), GROUPS, None))
    assert file is not None and file.columns
    for into in (new_table(), LayeredTable()):
        restore_keyed(storage, [file], ALL_GROUPS, {"t": into})
        found = content(into) if isinstance(into, ArrayTable) else dict(into.items())
        assert found == content(table)


@pytest.mark.parametrize("n", [5, 1 << 62])
@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize("on_columns", [False, True])
def test_a_value_that_became_none_is_not_added_to(on_columns: bool, is_full: bool, n: int) -> None:
    """The sum of a key that has expired, or of its window before a restart, would be part of the next one."""
    source: Any = new_table() if on_columns else LayeredTable()
    checkpoints = Checkpoints(source)
    if on_columns:
        add(source, ["k", "other"], [n, n])
        add(source, ["other"], [n])
        finished(checkpoints.begin(full=True))
        source.remove(source.slots_of(row_keys([pyarrow.array(["k"])])))
        add(source, ["k"], [None])
    else:
        source.put("k", (2, 2 * n, (2 * n, 2), 0.5))
        finished(checkpoints.begin(full=True))
        source.put("k", (1, None, None, None))
    finished(checkpoints.begin(is_full))
    restored = checkpoints.restored(new_table())
    assert content(restored)["k"] == (1, None, None, None)
    add(restored, ["k"], [1])
    assert content(restored)["k"] == (2, 1, (1, 1), 1.5)


def test_an_entry_that_rows_have_removed_is_not_restored() -> None:
    """The layers of a table of rows are one piece of its file: first the value of a key, then its tombstone."""
    rows = LayeredTable()
    checkpoints = Checkpoints(rows)
    rows.put("k", (1, 5, (5, 1), 0.5))
    finished(checkpoints.begin(full=True))
    rows.discard("k")
    finished(checkpoints.begin(full=True))
    assert content(checkpoints.restored(new_table())) == {} == dict(rows.items())


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("of_slices", [False, True])
def test_a_savepoint_that_is_written_again(seed: int, of_slices: bool) -> None:
    """A sum beyond 64 bits does not fit its column, so the file begins anew. What was written first would be lost."""
    random = Random(seed)
    slices = SlicedArrays(new_table)
    tables = [slices.arrays_at(start) for start in (0, 10)] if of_slices else [new_table()]
    keys: list[Any] = list(range(60))
    for table in tables:
        add(table, keys, [number + 1 for number in keys])
        add(table, random.choices(keys, k=3) * 2, [(1 << 63) - 1] * 6)
    whole: Any = slices if of_slices else tables[0]
    expected = content(whole)
    schema = aggregates_schema([one._replace(family=INTEGER if one.field == "n" else FLOAT) for one in AGGREGATES])
    storage, frozen = files_in_memory(), whole.freeze(True)
    writing = write_columns(storage, "s", ("t", frozen), GROUPS, schema)
    file = None
    try:
        while True:
            next(writing)
            if random.random() < 0.3:
                change(random.choice(tables), random, keys)
    except StopIteration as end:
        file = end.value
    assert file is not None
    into: Any = SlicedArrays(new_table) if of_slices else new_table()
    restore_keyed(storage, [file], ALL_GROUPS, {"t": into})
    assert content(into) == expected


def test_what_is_stored_is_plain() -> None:
    """Files would hold NumPy's own classes, which other versions of it may not read."""
    table = new_table()
    add(table, [1, 2], [1 << 62, None])

    def check(value: Any) -> None:
        assert type(value) in (tuple, list, str, bytes, type(None))
        for part in value if isinstance(value, (tuple, list)) else ():
            check(part)

    (piece,) = table.pieces_at(numpy.arange(2))
    check(packed(piece))
    assert list(unpacked(packed(piece)).values) == list(piece.values)


def test_a_value_of_another_type_is_refused() -> None:
    """An array would hold another number in its place, without a word."""
    table = new_table()
    with pytest.raises(Exception, match=r"2\.5 is not an integer"):
        table.restore([1], [(1, 2.5, None, None)])


@pytest.mark.parametrize("damage", ["hand_over", "wanted"])
def test_these_tests_find_lost_hand_overs(damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above would pass whatever the table does."""
    if damage == "hand_over":
        monkeypatch.setattr(frozen_rows.FrozenRows, "hand_over", lambda self, slots: None)
    else:
        monkeypatch.setattr(ArrayTable, "change", skipping_marks(ArrayTable.change))
    monkeypatch.setattr(frozen_rows, "BLOCK_ROWS", 4)
    failed = 0
    for seed in range(10):
        try:
            test_checkpoints_have_what_was_there_when_they_were_frozen(seed, False)
        except AssertionError:
            failed += 1
    assert failed


def skipping_marks(change_of: Callable[..., None]) -> Callable[..., None]:
    """Return a function that forgets that some slots have changed."""

    def change_some(self: ArrayTable, slots: Any) -> None:
        change_of(self, slots)
        self._changed[slots[:1]] = False

    return change_some


def test_the_stored_form_stays() -> None:
    """Snapshots of today could not be read by a later version."""
    piece = ([5, "a"], ("<i8", b"\n" + bytes(7) + b"\x14" + bytes(7)), [("count", (("<i8", b"\3" + bytes(15)),))])
    found = unpacked(piece)
    assert packed(found) == piece
    assert list(found.keys) == [(5, 10), ("a", 20)] and list(found.values) == [(3,), (0,)]


class CountedGroups(KeyGroups):
    """Notes which keys it is asked for."""

    def __init__(self) -> None:
        super().__init__(128)
        self.asked: list[Any] = []

    def __getitem__(self, key: Any) -> int:
        self.asked.append(key)
        return super().__getitem__(key)


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("changed_after", [0, 3, 1000])
def test_the_key_group_of_a_row_is_found_once(changed_after: int, full: bool) -> None:
    """A snapshot of many texts would take twice the time for their groups."""
    table = new_table()
    keys = [f"key {number}" for number in range(500)]
    add(table, keys, [1] * 500)
    frozen = table.freeze(full)
    groups = CountedGroups()
    assert frozen.prepare is not None and frozen.of_group is not None
    prepared = frozen.prepare(groups)
    for _ in prepared:
        # Some rows are handed over before their groups are known, some later.
        if not changed_after:
            add(table, keys[:100], [2] * 100)
    found: list[Any] = []
    for group in range(128):
        if group == changed_after:
            add(table, keys[50:300], [3] * 250)
        found += [key for some, _ in frozen.of_group(group) for key in some]
    assert sorted(found) == sorted(keys) == sorted(groups.asked)
    frozen.release()


def written(frozen: FrozenTable) -> list[Any]:
    """Return the entries of a snapshot, as its writer reads them."""
    assert frozen.prepare is not None and frozen.of_group is not None
    finished(frozen.prepare(GROUPS))
    return [entry for group in ALL_GROUPS for piece in frozen.of_group(group) for entry in zip(*piece, strict=True)]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Let blocks have 64 rows, and count how often snapshots look at one."""
    found: Counter[str] = Counter()

    class Counted(frozen_rows.FrozenRows):
        def find_groups(self, block: int, groups_of: Any) -> None:
            found["groups"] += 1
            super().find_groups(block, groups_of)

        def take_block(self, block: int, groups: range | None = None) -> Iterator[frozen_rows.Copied]:
            found["rows"] += 1
            return super().take_block(block, groups)

    monkeypatch.setattr(frozen_rows, "BLOCK_ROWS", 64)
    monkeypatch.setattr(frozen_arrays, "SPAN_ROWS_MIN", 64)
    monkeypatch.setattr(array_table, "FrozenRows", Counted)
    return found


def test_an_increment_of_few_rows_looks_at_all_rows_once(looks: Counter[str]) -> None:
    """A checkpoint of ten million keys with ten changes would look at each block of rows 32 times."""
    table = new_table()
    add(table, list(range(6_400)), [1] * 6_400)
    table.freeze(True).release()
    add(table, [5, 6_000], [2, 2])
    frozen = table.freeze(False)
    assert [key for key, _ in sorted(written(frozen))] == [5, 6_000]
    assert looks == {"groups": 100, "rows": 100}


def test_an_increment_does_not_look_at_slices_that_have_not_changed(looks: Counter[str]) -> None:
    """Windows of a day that slide by a minute have 1,440 slices, of which two have changed."""
    slices = SlicedArrays(new_table)
    for start in range(100):
        add(slices.arrays_at(start), [1, 2], [1, 1])
    slices.freeze(True).release()
    add(slices.arrays_at(7), [2, 3], [1, 1])
    frozen = slices.freeze(False)
    assert [key for key, _ in sorted(written(frozen))] == [(2, 7), (3, 7)]
    assert looks == {"groups": 1, "rows": 1}
    list(slices.drop(8))
    assert sorted(written(slices.freeze(False))) == [((1, 8), None), ((2, 8), None)]
