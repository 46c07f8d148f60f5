"""Programs that mix rows and columns, under random schedules and faults: rows are the oracle."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.first_cases import first_of
from tests.simulation.mutation import until_found
from tests.simulation.programs import seeds
from tests.simulation.test_unaligned import circumstances as unaligned
from tests.simulation.undisturbed import programs_that

from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.runtime.columns import (
    codec,
    exact_conversion,
    gathering,
    local_mixed_windows,
    mixed_contents,
    mixed_windows,
    stored_chunks,
)
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.conversions import ToRowsOperator
from penstock.engine.runtime.columns.few_rows import FewRows
from penstock.engine.runtime.columns.interval_join import ColumnIntervalJoinOperator
from penstock.engine.runtime.columns.join_table import JoinTable
from penstock.engine.runtime.columns.local_windows import LocalWindowAggregateOperator
from penstock.engine.runtime.columns.mixed_contents import MixedContentsOperator
from penstock.engine.runtime.columns.mixed_windows import MixedWindowOperator
from penstock.engine.runtime.columns.routing import KeyRoutes
from penstock.engine.runtime.columns.running_aggregate import ColumnRunningAggregateOperator
from penstock.engine.runtime.columns.windows import ColumnWindowOperator
from penstock.engine.runtime.network import worth
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.windows.sliced_window_operator import SlicedWindowOperator
from penstock.engine.state.arrays.array_table import ArrayTable
from penstock.engine.state.arrays.frozen_rows import FrozenRows
from penstock.engine.state.arrays.row_keys import Integers
from penstock.hosts.simulator import Circumstances, run_program
from penstock.hosts.simulator.building import build
from penstock.hosts.simulator.programs import Node, Program, SplitScript
from penstock.hosts.simulator.step_limit import STEPS_MAX

pytestmark = pytest.mark.simulation

FORMS = ("chained", "unchained", "keyed", "exchanged", "changes, keyed")
WITHOUT_KEYS = ("chained", "unchained", "changes")
"""Behind a keyed exchange records of different keys have another order, which programs on rows may not have."""


@pytest.fixture(autouse=True)
def small_chunks_are_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """It pays to encode the columns of large chunks only: those of the simulator would never be."""
    monkeypatch.setattr(worth, "ROWS_MIN", 1)
    monkeypatch.setattr(worth, "pays", lambda saved_bytes, rows, cost, byte_ns: rows > 0)


@pytest.fixture(autouse=True)
def batches_cross_exchanges_as_well(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send the chunks of each second program, and those of faults in them, as batches of Arrow: all are short here."""
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    if "a_fault" in request.node.name or parameters.get("number", parameters.get("seed", 0)) % 2:
        monkeypatch.setattr(gathering, "FEW_ROWS", 0)


def adds(program: Program) -> bool:
    """Return whether a program has an operator that can run on columns as well."""
    return any(node.kind == "map" for node in program.nodes)


def can_be_columns(program: Program, node: Node) -> bool:
    """Return whether a node is a window whose aggregates can be computed on columns: late records are dropped."""
    return (
        node.kind == "window"
        and node.settings["windows"] == "tumbling"
        and node.settings["how"] == "aggregate"
        and "evicts" not in node.settings
        and not any(one.kind == "late" and one.inputs == (node.id,) for one in program.nodes)
    )


def sums_in_windows(program: Program) -> bool:
    """Return whether a program has such windows."""
    return any(can_be_columns(program, node) for node in program.nodes)


def reduces(program: Program) -> bool:
    """Return whether a program has a running sum, minimum or maximum, which can be computed on columns."""
    return any(node.kind == "reduce" for node in program.nodes)


def joins_by_time(program: Program) -> bool:
    """Return whether a program has an interval join, whose pairs can be found on columns."""
    return any(node.kind == "interval_join" for node in program.nodes)


def with_columns(program: Program, seed: int, windows: str = "windows") -> Program:
    """Return the program with its additions, windows and aggregates on columns, whose results are the same."""
    forms = {
        node.id: (forms := FORMS if node.parallelism == 1 and not program.batched else WITHOUT_KEYS)[
            (seed + node.id) % len(forms)
        ]
        for node in program.nodes
        if node.kind == "map"
    }
    forms |= {node.id: windows for node in program.nodes if can_be_columns(program, node)}
    forms |= {node.id: "running" for node in program.nodes if node.kind == "reduce"}
    forms |= {node.id: "joined" for node in program.nodes if node.kind == "interval_join"}
    nodes = (
        dataclasses.replace(node, settings={**node.settings, "columns": forms[node.id]}) if node.id in forms else node
        for node in program.nodes
    )
    return dataclasses.replace(program, nodes=tuple(nodes))


def growing(program: Program) -> Program:
    """Return the program with cumulative windows, in three steps, in place of those that can be on columns."""
    nodes = (
        dataclasses.replace(
            node,
            settings={
                **node.settings,
                "windows": "cumulative",
                "slide_ms": (step := max(1, node.settings["size_ms"] // 3)),
                "size_ms": 3 * step,
            },
        )
        if can_be_columns(program, node)
        else node
        for node in program.nodes
    )
    return dataclasses.replace(program, nodes=tuple(nodes))


def run(seed: int, program: Program, windows: str = "windows") -> None:
    """Run a program with its additions on columns. More chunks, each cut at any row, take more steps."""
    circumstances = Circumstances.draw(Random(seed + 1))
    run_program(with_columns(program, seed, windows), circumstances, seed, step_limit=4 * STEPS_MAX)


@pytest.mark.parametrize("number", seeds((0, 1, 2, 5), in_soak=2_000))
def test_columns_give_the_results_of_rows(number: int) -> None:
    """A program would give other results, or lose records at a fault, since it has columns."""
    run(*list(programs_that(adds, number + 1))[-1])


@pytest.mark.parametrize("number", seeds((0, 3, 4, 5), in_soak=2_000))
def test_windows_of_columns_give_the_results_of_rows(number: int) -> None:
    """A window would lose records, count some twice, or drop late ones that rows do not, at any fault."""
    run(*list(programs_that(sums_in_windows, number + 1))[-1])


def declared_rows_become_columns(patch: pytest.MonkeyPatch, number: int) -> None:
    """Let small chunks and windows be columns, too. Those of every third number are sent as they are."""
    patch.setattr(exact_conversion, "COLUMNS_FROM", 1 + number % 3)
    for module in (local_mixed_windows, mixed_contents, mixed_windows):
        patch.setattr(module, "ARRAYS_FROM", 1 + number % 2)
    patch.setattr(local_mixed_windows, "RECORDS_OF_KEY", number % 2)
    if number % 3 == 2:
        patch.setattr(MixedWindowOperator, "takes_partials", False)


@pytest.mark.parametrize("number", seeds((0, 3, 4, 5), in_soak=2_000))
def test_windows_of_declared_rows_give_the_results_of_rows(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk that stays rows, or a window that changes its form, would be lost or count twice at a fault."""
    declared_rows_become_columns(monkeypatch, number)
    run(*list(programs_that(sums_in_windows, number + 1))[-1], "declared")


@pytest.mark.parametrize("number", seeds((0, 3), in_soak=2_000))
@pytest.mark.parametrize("form", ["rows", "windows", "declared"])
def test_cumulative_windows(number: int, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a window carries into the next would be lost, or there twice, at any fault and at another parallelism."""
    monkeypatch.setattr(exact_conversion, "COLUMNS_FROM", 1 + number % 3)
    monkeypatch.setattr(mixed_windows, "ARRAYS_FROM", 1 + number % 2)
    seed, program = list(programs_that(sums_in_windows, number + 1))[-1]
    program = growing(program)
    # The windows on columns are named before they grow: only tumbling ones are found.
    columns = {node.id: form for node in program.nodes if node.settings.get("windows") == "cumulative"}
    nodes = (
        dataclasses.replace(node, settings={**node.settings, "columns": columns[node.id]})
        if form != "rows" and node.id in columns
        else node
        for node in program.nodes
    )
    circumstances = Circumstances.draw(Random(seed + 1))
    run_program(dataclasses.replace(program, nodes=tuple(nodes)), circumstances, seed, step_limit=4 * STEPS_MAX)


@pytest.mark.parametrize("number", seeds((0, 1, 3, 4, 5), in_soak=2_000))
def test_running_aggregates_of_columns_give_the_results_of_rows(number: int) -> None:
    """A key would lose what it had, or have it twice, at any fault."""
    run(*list(programs_that(reduces, number + 1))[-1])


@pytest.mark.parametrize("number", seeds((1, 2, 3, 4), in_soak=2_000))
def test_interval_joins_of_columns_give_the_results_of_rows(number: int) -> None:
    """A pair would be missing, or be there twice, at any fault, or after records wait for partners in a snapshot."""
    run(*list(programs_that(joins_by_time, number + 1))[-1])


def of_changes(script: int, count: int = 40) -> SplitScript:
    """Return the records of a split."""
    records = ((f"s{script}", (number,), number % 5, number) for number in range(count))
    return SplitScript(f"s{script}", script, tuple((record, record[3]) for record in records))


SOURCE = {
    "splits": [of_changes(script) for script in range(3)], "shared": False, "interleaved": False, "chunk": 4,
    "timed": True, "assigner": False, "watermarks": "punctuated", "bound_ms": 0, "idle_ms": None,
}  # fmt: skip
CHANGES = Program(
    (
        Node(0, "source", (), 3, SOURCE),
        Node(1, "map", (0,), 1, {"amount": 3, "columns": "changes, keyed"}),
        Node(2, "write", (1,), 1),
    ),
    exact_time=False,
)
"""An exchange of three channels with columns that have kinds and timestamps."""


RUNNING = Program(
    (
        Node(0, "source", (), 3, SOURCE),
        Node(1, "key_by", (0,), 3),
        Node(2, "reduce", (1,), 2, {"how": "sum", "columns": "running"}),
        Node(3, "collect", (2,), 1),
    ),
    exact_time=False,
)
"""Sums by key on columns, in two subtasks."""


SHORT = {**SOURCE, "splits": [of_changes(script, 20) for script in range(3)]}
JOINED = Program(
    (
        Node(0, "source", (), 3, SHORT),
        Node(1, "source", (), 3, SHORT),
        Node(2, "key_by", (0,), 3),
        Node(3, "key_by", (1,), 3),
        Node(4, "interval_join", (2, 3), 2, {"lower_ms": -10, "upper_ms": 10, "columns": "joined"}),
        Node(5, "collect", (4,), 1),
    )
)
"""Pairs on columns, in two subtasks."""


GROWING = Program(
    (
        Node(0, "source", (), 3, SOURCE),
        Node(1, "key_by", (0,), 3),
        Node(
            2,
            "window",
            (1,),
            2,
            {"windows": "cumulative", "size_ms": 24, "slide_ms": 8, "how": "aggregate", "columns": "windows"},
        ),
        Node(3, "collect", (2,), 1),
    )
)
"""Cumulative windows on columns, in two subtasks."""


DECLARED = Program(
    (
        Node(0, "source", (), 3, SOURCE),
        Node(1, "key_by", (0,), 3),
        Node(2, "window", (1,), 2, {"windows": "tumbling", "size_ms": 16, "how": "aggregate", "columns": "declared"}),
        Node(3, "collect", (2,), 1),
    )
)
"""Windows of declared rows, in two subtasks, which receive rows, columns and partial aggregates."""

DECLARED_GROWING = dataclasses.replace(
    GROWING,
    nodes=tuple(
        dataclasses.replace(node, settings={**node.settings, "columns": "declared"}) if node.kind == "window" else node
        for node in GROWING.nodes
    ),
)
"""Cumulative windows of rows with declared fields, which are rows or arrays."""


def run_in_flight(seed: int, program: Program) -> None:
    """Run a program whose barriers overtake columns, and whose workers are killed."""
    run_program(program, unaligned(seed), seed, named=False)


def run_on_heap(seed: int, program: Program) -> None:
    """Run a program like `run_in_flight`, with state on the heap: arrays are written as arrays."""
    circumstances = dataclasses.replace(unaligned(seed), cached_entries=None, external_store=False)
    run_program(program, circumstances, seed, named=False)


def run_in_store(seed: int, program: Program) -> None:
    """Run a program like `run_in_flight`, with state that is larger than memory."""
    run_program(program, dataclasses.replace(unaligned(seed), cached_entries=seed % 3), seed, named=False)


@pytest.mark.parametrize("seed", seeds(3, in_soak=2_000))
def test_columns_that_a_barrier_has_overtaken_are_restored(seed: int) -> None:
    """They would be lost, come twice, or be inserts."""
    run_in_flight(seed, CHANGES)


Run = Callable[[int, Program], None]


def in_turn(*runs: Run) -> list[Any]:
    """Return parameters of a test: each way to run a program with a seed of its own, and all with all in the soak."""
    chosen = [*enumerate(runs)]
    others = ((seed, run_it) for seed in range(2_000) for run_it in runs if (seed, run_it) not in chosen)
    return first_of(len(chosen), [*chosen, *others])


@pytest.mark.parametrize(("seed", "run_it"), in_turn(run_in_flight, run_on_heap))
def test_running_aggregates_survive_every_kill(seed: int, run_it: Run) -> None:
    """Few of the generated programs restore sums of which most was in arrays."""
    run_it(seed, RUNNING)


@pytest.mark.parametrize(("seed", "run_it"), in_turn(run_on_heap, run_in_flight))
def test_cumulative_windows_survive_every_kill(seed: int, run_it: Run) -> None:
    """Few of the generated programs restore what a window has carried into the next."""
    run_it(seed, GROWING)


@pytest.mark.parametrize(("seed", "run_it"), in_turn(run_in_flight, run_on_heap, run_in_store))
def test_windows_of_declared_rows_survive_every_kill(seed: int, run_it: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few of the generated programs restore windows of both forms, or have partial aggregates in flight."""
    declared_rows_become_columns(monkeypatch, seed)
    run_it(seed, DECLARED)


@pytest.mark.parametrize(("seed", "run_it"), in_turn(run_on_heap, run_in_flight))
def test_interval_joins_survive_every_kill(seed: int, run_it: Run) -> None:
    """Few of the generated programs restore records that wait for partners."""
    run_it(seed, JOINED)


def operators(graph: JobGraph) -> list[list[str]]:
    """Return the names of the operators of each vertex."""
    return [[type(node.operator).__name__ for node in vertex.nodes] for vertex in graph.vertices]


def test_the_programs_have_columns() -> None:
    """The tests of this file would test rows alone."""
    found: set[str] = set()
    carried: set[str] = set()
    for seed, program in programs_that(adds, 10):
        graph = build(with_columns(program, seed)).graph
        found.update(name for names in operators(graph) for name in names)
        carried.update(
            edge.stream_edge.partitioner.ship_strategy for edge in graph.edges if edge.stream_edge.columns is not None
        )
    assert {"ToColumnsOperator", "MapBatchesOperator", "ToRowsOperator"} <= found
    assert carried == {"FORWARD", "HASH"}


def test_interval_joins_receive_the_columns_that_they_read() -> None:
    """The joins of these programs would be on rows, or get columns that nobody reads."""
    joins = 0
    for seed, program in programs_that(joins_by_time, 10):
        graph = build(with_columns(program, seed)).graph
        joins += sum(names.count(ColumnIntervalJoinOperator.__name__) for names in operators(graph))
        for edge in graph.edges:
            target = graph.vertices[edge.target].nodes[0].operator
            if isinstance(target, ColumnIntervalJoinOperator):
                sent = edge.stream_edge.columns
                assert sent is not None and sent.names == ("key", "number")
    # The others are batched, and join rows.
    assert joins >= 5


def lost_timestamps(patch: pytest.MonkeyPatch) -> None:
    """Rows that were columns have no timestamps."""
    process = ToRowsOperator.process
    patch.setattr(ToRowsOperator, "process", lambda self, chunk: process(self, Columns(chunk.batch)))


def kinds_are_lost_in_flight(patch: pytest.MonkeyPatch) -> None:
    """Changes that a barrier has overtaken are inserts after a restart."""
    patch.setattr(
        stored_chunks, "stored_chunks", lambda content: (Columns(one.batch, one.timestamps) for one in READ(content))
    )


def kinds_are_lost_on_edges(patch: pytest.MonkeyPatch) -> None:
    """Changes that are sent become inserts."""
    encoded = codec.encoded
    patch.setattr(codec, "encoded", lambda chunk, price: encoded(Columns(chunk.batch, chunk.timestamps)))


def kinds_of_other_rows(patch: pytest.MonkeyPatch) -> None:
    """A part of a chunk has the kinds of its first rows."""
    of_rows, of_few = Columns.part, FewRows.part

    def shifted(self: Columns, start: int, stop: int | None = None) -> Columns:
        found = of_rows(self, start, stop)
        return Columns(found.batch, found.timestamps, None if self.kinds is None else self.kinds[: len(found)])

    def few_shifted(self: FewRows, start: int, stop: int | None = None) -> FewRows:
        found = of_few(self, start, stop)
        kinds = None if self.kinds is None else self.kinds[: len(found)]
        return FewRows(found.schema, found.lists, found.timestamps, kinds)

    patch.setattr(Columns, "part", shifted)
    patch.setattr(FewRows, "part", few_shifted)


def watermarks_are_dropped(patch: pytest.MonkeyPatch) -> None:
    """Event time does not pass a conversion."""
    watermark = Operator.watermark
    patch.setattr(
        Operator, "watermark", lambda self, timestamp: type(self) is ToRowsOperator or watermark(self, timestamp)
    )


def arrays_are_not_written_back(patch: pytest.MonkeyPatch) -> None:
    """A snapshot lacks what is in arrays only."""
    patch.setattr(ColumnWindowOperator, "prepare_snapshot", lambda self, checkpoint_id, savepoint: [])


def partials_stay_over_a_barrier(patch: pytest.MonkeyPatch) -> None:
    """Records that are aggregated before the exchange are in no snapshot."""
    patch.setattr(LocalWindowAggregateOperator, "prepare_snapshot", lambda self, checkpoint_id, savepoint: [])


def partials_leave_behind_the_watermark(patch: pytest.MonkeyPatch) -> None:
    """Slices leave after the watermark that ends them."""

    def watermark(self: LocalWindowAggregateOperator, timestamp: int) -> bool:
        may_continue = Operator.watermark(self, timestamp)
        return sent(self, timestamp) and may_continue

    def sent(self: LocalWindowAggregateOperator, timestamp: int) -> bool:
        self._watermark = timestamp
        return self._send(self._ended(list(self._slices)))

    patch.setattr(LocalWindowAggregateOperator, "watermark", watermark)


def rows_go_to_the_next_subtask(patch: pytest.MonkeyPatch) -> None:
    """A key is in two subtasks: by rows in one, by columns in the other."""
    subtasks = KeyRoutes.subtasks
    patch.setattr(
        KeyRoutes,
        "subtasks",
        lambda self, batch: (subtasks(self, batch) + (batch.num_rows > 1)) % self._parallelism,
    )


def running_aggregates_are_not_written_back(patch: pytest.MonkeyPatch) -> None:
    """A snapshot lacks the aggregates that are in arrays only."""
    patch.setattr(ColumnRunningAggregateOperator, "prepare_snapshot", lambda self, checkpoint_id, savepoint: [])


def running_aggregates_begin_again(patch: pytest.MonkeyPatch) -> None:
    """A key starts without what it had before the restart."""
    patch.setattr(ArrayTable, "restore", lambda self, entry_keys, values: None)


def changes_are_in_the_snapshot_before(patch: pytest.MonkeyPatch) -> None:
    """Rows that change while their snapshot is written are stored as they are later."""
    patch.setattr(FrozenRows, "hand_over", lambda self, slots: None)


def changes_are_not_in_the_next_snapshot(patch: pytest.MonkeyPatch) -> None:
    """An incremental snapshot leaves out what has changed."""
    change = ArrayTable.change

    def forgetting(self: ArrayTable, slots: Integers) -> None:
        change(self, slots)
        self.take_changes()

    patch.setattr(ArrayTable, "change", forgetting)


def few_rows_go_to_the_next_subtask(patch: pytest.MonkeyPatch) -> None:
    """A key is in two subtasks: one for lists of several rows, another for single ones."""
    divide = KeyRoutes.divide
    patch.setattr(
        KeyRoutes,
        "divide",
        lambda self, columns, channels: divide(
            self, columns, [*channels[1:], channels[0]] if len(columns) > 1 else channels
        ),
    )


@pytest.mark.thorough
def test_a_fault_in_few_rows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would pass rows that come to another subtask in short chunks."""
    few_rows_go_to_the_next_subtask(monkeypatch)
    until_found(monkeypatch, ((seed, RUNNING) for seed in range(1, 50)), run_in_flight)


READ = stored_chunks.stored_chunks
ADDS, WINDOWS = adds, sums_in_windows
FIRST: dict[Callable[[pytest.MonkeyPatch], None], tuple[Callable[[Program], bool], int]] = {
    lost_timestamps: (ADDS, 0),
    kinds_are_lost_on_edges: (ADDS, 37),
    kinds_of_other_rows: (ADDS, 30),
    watermarks_are_dropped: (ADDS, 140),
    arrays_are_not_written_back: (WINDOWS, 29073),
    partials_stay_over_a_barrier: (WINDOWS, 22492),
    partials_leave_behind_the_watermark: (WINDOWS, 0),
    rows_go_to_the_next_subtask: (WINDOWS, 2150),
}
"""The programs that find the fault, and the seed that is known to. The search starts there."""


def columns_in_flight_are_lost(patch: pytest.MonkeyPatch) -> None:
    """A snapshot leaves out columns that its barrier has overtaken."""
    patch.setattr(stored_chunks, "stored_chunks", lambda content: iter(()))


@pytest.mark.thorough
@pytest.mark.parametrize("fault", [kinds_are_lost_in_flight, columns_in_flight_are_lost])
def test_a_fault_in_columns_in_flight_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator would pass a restore without them."""
    fault(monkeypatch)
    until_found(monkeypatch, ((seed, CHANGES) for seed in range(7, 50)), run_in_flight)


def joined_records_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Records that wait for partners are missing after a restart."""
    patch.setattr(JoinTable, "restore", lambda self, entry_keys, values: None)


IN_RUNNING: dict[Callable[[pytest.MonkeyPatch], None], tuple[Callable[[int, Program], None], int]] = {
    running_aggregates_are_not_written_back: (run_in_flight, 37),
    running_aggregates_begin_again: (run_on_heap, 43),
    changes_are_in_the_snapshot_before: (run_on_heap, 108),
    changes_are_not_in_the_next_snapshot: (run_on_heap, 58),
}
"""How the programs are run that find the fault, and the seed that is known to. The search starts there."""


@pytest.mark.thorough
@pytest.mark.parametrize("fault", IN_RUNNING)
def test_a_fault_in_running_aggregates_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator would pass sums that begin again."""
    fault(monkeypatch)
    run_it, first = IN_RUNNING[fault]
    until_found(monkeypatch, ((seed, RUNNING) for seed in range(first, 300)), run_it)


def nothing_is_carried(patch: pytest.MonkeyPatch) -> None:
    """A cumulative window has only what was added since the one before it fired."""
    patch.setattr(SlicedWindowOperator, "carried_into", lambda self, window: None)


@pytest.mark.thorough
@pytest.mark.parametrize(("program", "first"), [(GROWING, 0), (DECLARED_GROWING, 2)], ids=["columns", "declared"])
def test_a_fault_in_cumulative_windows_is_found(program: Program, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would pass windows that forget what they had before. `first`: the seed that is known to find it."""
    nothing_is_carried(monkeypatch)
    monkeypatch.setattr(exact_conversion, "COLUMNS_FROM", 1)
    monkeypatch.setattr(mixed_windows, "ARRAYS_FROM", 1)
    until_found(monkeypatch, ((seed, program) for seed in range(first, 300)), run_in_flight)


def caches_are_not_written_back(patch: pytest.MonkeyPatch) -> None:
    """A snapshot lacks what is only in arrays in front of a store."""
    prepare_snapshot = MixedContentsOperator.prepare_snapshot

    def forgetting(self: MixedContentsOperator, checkpoint_id: int, savepoint: bool) -> list[Any]:
        caches, self._caches = self._caches, {}
        found = prepare_snapshot(self, checkpoint_id, savepoint)
        self._caches = caches
        return found

    patch.setattr(MixedContentsOperator, "prepare_snapshot", forgetting)


def arrays_begin_without_their_table(patch: pytest.MonkeyPatch) -> None:
    """A window that gets arrays again loses what its table has."""
    patch.setattr(MixedContentsOperator, "reader_of", lambda self, window: None)


def rows_leave_arrays_alone(patch: pytest.MonkeyPatch) -> None:
    """Rows are added to a table whose newest values are in arrays."""
    patch.setattr(MixedContentsOperator, "stay_rows", lambda self, window: None)


IN_DECLARED: dict[Callable[[pytest.MonkeyPatch], None], tuple[Callable[[int, Program], None], int]] = {
    partials_stay_over_a_barrier: (run_in_flight, 14),
    partials_leave_behind_the_watermark: (run_in_flight, 0),
    caches_are_not_written_back: (run_in_store, 18),
    arrays_begin_without_their_table: (run_in_store, 2),
    rows_leave_arrays_alone: (run_in_store, 0),
}
"""How the programs are run that find the fault, and the seed that is known to. The search starts there."""


@pytest.mark.thorough
@pytest.mark.parametrize("fault", IN_DECLARED)
def test_a_fault_in_windows_of_declared_rows_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator would pass windows that lose what is in one of their forms."""
    declared_rows_become_columns(monkeypatch, 0)
    fault(monkeypatch)
    run_it, first = IN_DECLARED[fault]
    until_found(monkeypatch, ((seed, DECLARED) for seed in range(first, 300)), run_it)


@pytest.mark.thorough
def test_a_fault_in_interval_joins_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would pass joins that forget their records."""
    joined_records_are_forgotten(monkeypatch)
    until_found(monkeypatch, ((seed, JOINED) for seed in range(10, 400)), run_on_heap)


@pytest.mark.thorough
@pytest.mark.parametrize("fault", FIRST)
def test_a_fault_in_the_column_path_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator would pass conversions that lose what rows have."""
    fault(monkeypatch)
    are_suitable, first = FIRST[fault]
    until_found(monkeypatch, programs_that(are_suitable, 300, first), run)
