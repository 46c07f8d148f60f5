"""The coordinator under any order of events: each output counts once, and each file stays as long as it is needed."""

from __future__ import annotations

from collections import Counter, defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.engine.checkpoint.coordinated_job import COUNT, SINK, SOURCE, VERTICES, Job

from penstock.engine.checkpoint.effects import StoreManifest
from penstock.engine.checkpoint.manifest import Manifest, packed, unpacked
from penstock.engine.checkpoint.plan import CheckpointVertex
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.state.handles import KeyedFile, OperatorState, SubtaskState

TASKS = [SubtaskId(vertex, subtask) for vertex in (SOURCE, COUNT) for subtask in range(2)]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *["trigger"] * 4,
                *["acknowledge"] * 2,
                *["acknowledge all"] * 4,
                *["store"] * 3,
                *["fail to store", "pass"] * 2,
                *["commit", "decline", "abort", "end", "end a part"],
            ]
        ),
        st.integers(0, 3),
    ),
    min_size=15,
    max_size=60,
)


class Wild:
    """A job in which any event may come next. Tasks write increments and prepare output for each checkpoint."""

    def __init__(self, retained: int) -> None:
        self.job = Job(retained=retained, concurrent_max=3, timeout_ms=1_000)
        self.job.stores_at_once = self.job.commits_at_once = False
        self.attempt = 0
        self.chains: dict[SubtaskId, list[str]] = defaultdict(list)
        self.reached: dict[SubtaskId, int] = defaultdict(int)
        """The last checkpoint of which a task has taken its part."""
        self.prepared: list[tuple[int, int, str]] = []
        """Subtask of the sink, number of the checkpoint, and what it is, in order."""

    def acknowledge(self, task: SubtaskId, number: int) -> None:
        """Acknowledge a checkpoint, if the task has not seen a newer barrier."""
        if number <= self.reached[task]:
            return
        self.reached[task] = number
        name = f"{self.attempt}-{number}-{task.vertex}-{task.subtask}"
        self.job.storage.files[name] = b""
        chain = self.chains[task]
        # Every third increment replaces the chain.
        chain[:] = [*chain, name] if len(chain) < 3 else [name]
        state = SubtaskState({"c": OperatorState([KeyedFile(path, 0, [], []) for path in chain])})
        commits = []
        if task.vertex == COUNT:
            self.prepared.append((task.subtask, number, name))
            commits = [(SINK, [name])]
        self.job.coordinator.acknowledged(task, number, state, commits, self.job.now_ms)
        self.job.does()

    def step(self, kind: str, choice: int) -> None:
        """Apply a random event. `choice`: the task or checkpoint."""
        job, coordinator = self.job, self.job.coordinator
        under_way = coordinator.under_way
        number = under_way[choice % len(under_way)] if under_way else 0
        if kind == "trigger" and len(under_way) < 3:
            job.triggers()
        elif kind == "acknowledge" and under_way:
            self.acknowledge(TASKS[choice], number)
        elif kind == "acknowledge all" and under_way:
            for task in TASKS:
                self.acknowledge(task, number)
        elif kind == "decline" and under_way:
            job.declines(TASKS[choice], number, "for a reason")
        elif kind == "abort" and under_way:
            job.aborts(number)
        elif kind == "pass":
            job.passes(700)
        elif kind in ("store", "fail to store") and job.operations:
            if kind == "fail to store" and isinstance(job.operations[0], StoreManifest):
                job.storage.fail()
            job.stores()
            job.storage.heal()
        elif kind == "commit" and job.commits:
            job.commits_next()
        elif kind == "end":
            self.end_attempt()
        elif kind == "end a part":
            self.end_part(VERTICES[choice % 2])

    def end_attempt(self) -> None:
        """End the tasks; when the storage has answered, begin the next attempt."""
        self.settle()
        self.job.ends_attempt()
        self.settle()
        self.attempt += 1
        self.chains.clear()
        self.job.coordinator.tasks_began(self.attempt, VERTICES, lambda: {"s": packed([])}, self.job.now_ms)

    def end_part(self, vertex: CheckpointVertex) -> None:
        """End and restart the tasks of one vertex, while the others run, as if no edge connected them."""
        self.settle()
        under_way = self.job.coordinator.under_way
        self.job.ends_tasks([vertex])
        for task in TASKS:
            if task.vertex == vertex.id:
                self.chains.pop(task, None)
            elif under_way:
                # It was about to acknowledge, and has not heard of the abort.
                self.acknowledge(task, under_way[-1])
        self.settle()
        self.attempt += 1
        self.job.coordinator.tasks_began(self.attempt, VERTICES, lambda: {"s": packed([])}, self.job.now_ms)

    def settle(self) -> None:
        """Answer all storage operations."""
        while self.job.operations:
            self.job.stores()

    def complete_one(self) -> None:
        """Complete a last checkpoint and all commits."""
        self.settle()
        for number in self.job.coordinator.under_way:
            self.job.aborts(number)
        number = self.job.triggers()
        for task in TASKS:
            self.acknowledge(task, number)
        self.settle()
        while self.job.commits:
            self.job.commits_next()


def played(steps: list[tuple[str, int]], retained: int) -> Wild:
    wild = Wild(retained)
    for kind, choice in steps:
        wild.step(kind, choice)
    return wild


@settings(max_examples=100)
@given(STEPS, st.integers(1, 3))
def test_each_output_is_committed_once_or_aborted_once(steps: list[tuple[str, int]], retained: int) -> None:
    """Rows would be missing or duplicated after some rare order of failures."""
    wild = played(steps, retained)
    wild.complete_one()
    outcomes = Counter(values[0] for _, _, values in [*wild.job.committed, *wild.job.aborted])
    assert outcomes == Counter(name for _, _, name in wild.prepared)


@settings(max_examples=100)
@given(STEPS, st.integers(1, 3))
def test_output_of_a_subtask_is_committed_in_the_order_of_its_checkpoints(
    steps: list[tuple[str, int]], retained: int
) -> None:
    """A later version of a row would be replaced by an earlier one."""
    wild = played(steps, retained)
    wild.complete_one()
    numbers = {name: number for _, number, name in wild.prepared}
    for subtask in range(2):
        committed = [numbers[values[0]] for _, of, values in wild.job.committed if of == subtask]
        assert committed == sorted(committed)


@settings(max_examples=100)
@given(STEPS, st.integers(1, 3))
def test_nothing_is_committed_that_no_manifest_names(steps: list[tuple[str, int]], retained: int) -> None:
    """After a failure at that moment the same rows would be written and committed a second time."""
    wild = Wild(retained)
    named: set[str] = set()
    for kind, choice in steps:
        wild.step(kind, choice)
        for manifest in wild.job.storage.manifests.values():
            named.update(committed_in(manifest))
        assert {values[0] for _, _, values in wild.job.committed} <= named


def committed_in(manifest: Manifest) -> list[str]:
    """Return the committables that a manifest names."""
    return [value for texts in manifest.commits.values() for text in texts for value in unpacked(text)[1]]


@settings(max_examples=100)
@given(STEPS, st.integers(1, 3))
def test_the_files_of_each_stored_checkpoint_are_there(steps: list[tuple[str, int]], retained: int) -> None:
    """A job could not be restored from its newest checkpoint, or its store would grow forever."""
    wild = Wild(retained)
    for kind, choice in steps:
        wild.step(kind, choice)
        storage, completed = wild.job.storage, wild.job.completed.retained
        for manifest in completed:
            assert manifest.files() <= storage.files.keys()
            assert manifest.checkpoint_id in storage.manifests
    wild.end_attempt()
    kept = wild.job.completed.retained
    assert len(kept) <= retained
    assert wild.job.storage.files.keys() == {path for manifest in kept for path in manifest.files()}
    assert sorted(wild.job.storage.manifests) == [manifest.checkpoint_id for manifest in kept]


@settings(max_examples=100)
@given(STEPS)
def test_the_host_is_woken_when_a_checkpoint_expires(steps: list[tuple[str, int]]) -> None:
    """After one lost message no further checkpoint would complete."""
    wild = played(steps, 1)
    wild.settle()
    job, coordinator = wild.job, wild.job.coordinator
    while (at_ms := coordinator.wake_at_ms(True)) is not None:
        before = coordinator.under_way
        job.passes(at_ms - job.now_ms - 1)
        assert coordinator.under_way == before, "not a millisecond earlier"
        job.passes(1)
        assert len(coordinator.under_way) < len(before)
    assert coordinator.under_way == []
