"""Keyed state in PostgreSQL: versions, checkpoints, restores, fences, what is removed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from tests.connectors.external_state import (
    GROUPS,
    KEYS,
    Job,
    change,
    check_changed_classes,
    check_like_a_heap,
    content,
    spread,
    states,
)
from tests.connectors.postgres_tables import Tables
from tests.first_cases import first_of

from penstock.api.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from penstock.common.errors import CheckpointError
from penstock.common.typeinfo import Types
from penstock.connectors.postgres.connection import PostgresError
from penstock.datastream.functions import AggregateFunction
from penstock.engine.state.key_groups import subtask_of
from penstock.engine.stores.postgres import forget_job
from penstock.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.connectors


@pytest.fixture
def tables(postgres: PostgresServer) -> Iterator[Tables]:
    tables = Tables(postgres.url)
    yield tables
    tables.connection.close()


@pytest.fixture
def job(postgres: PostgresServer) -> Job:
    return Job(postgres.url)


@pytest.mark.parametrize("seed", first_of(3, range(6)))
def test_it_is_the_state_of_a_heap(job: Job, seed: int) -> None:
    """Any sequence of accesses, checkpoints that fail or complete, and restarts gives what memory would give."""
    check_like_a_heap(job, seed)


def test_classes_that_have_changed_are_noticed_by_a_restore(job: Job) -> None:
    """The state of such keys would be lost, silently, and a value that can't be made would fail a later record."""
    check_changed_classes(job)


def test_a_checkpoint_has_what_was_there_when_it_was_frozen(job: Job) -> None:
    """Records from behind the barrier would be counted twice after a restart."""
    subtask = job.subtask()
    change(subtask.backend, Random(1), 100)
    before = content(subtask.backend)
    frozen = subtask.frozen()
    change(subtask.backend, Random(2), 100)
    files = subtask.written(frozen)
    change(subtask.backend, Random(3), 100)
    subtask.maintained()
    subtask.backend.close()
    job.runs += 1
    restored = job.subtask().restored(files)
    assert content(restored.backend) == before
    restored.backend.close()


def test_after_a_lost_connection_the_next_checkpoint_is_complete(job: Job, tables: Tables) -> None:
    """A server that was restarted would fail all checkpoints from then on, one after the other."""
    subtask = job.subtask()
    change(subtask.backend, Random(1), 100)
    subtask.checkpoint()
    assert tables.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
        f"WHERE application_name = 'penstock snapshots {job.id}'"
    ) == [(True,)]
    change(subtask.backend, Random(2), 100)
    with pytest.raises(PostgresError):
        subtask.checkpoint()
    change(subtask.backend, Random(3), 100)
    files = subtask.checkpoint()
    before = content(subtask.backend)
    subtask.backend.close()
    job.runs += 1
    restored = job.subtask().restored(files)
    assert content(restored.backend) == before
    restored.backend.close()


def test_rescaling_moves_nothing(job: Job, tables: Tables) -> None:
    """With another parallelism keys would be lost, doubled, or new elements of a list would replace old ones."""
    subtasks = [job.subtask(number, 2) for number in range(2)]
    expected: dict[int, Any] = {}
    for number, subtask in enumerate(subtasks):
        # In another order each, as functions may ask for states when they first need them.
        for descriptor in [ListStateDescriptor("list", Types.LONG()), ValueStateDescriptor("value", Types.LONG())][
            :: 1 - 2 * number
        ]:
            subtask.backend.state(descriptor)
        value, _, elements, *_ = states(subtask.backend)
        for subtask.backend.key in [key for key in KEYS if subtask_of(GROUPS[key], 8, 2) == number]:
            value.update(subtask.backend.key)
            elements.update([subtask.backend.key] * 600)
    for parallelism, next_one in ((2, 3), (3, 1)):
        olds = [subtask.checkpoint() for subtask in subtasks]
        # A later change does not count, and blocks no other.
        for subtask in subtasks:
            subtask.backend.key = next(key for key in KEYS if subtask_of(GROUPS[key], 8, parallelism) == subtask.number)
            states(subtask.backend)[0].update(-1)
            subtask.maintained()
            subtask.backend.close()
        subtasks = spread(job, olds, parallelism, next_one)
        expected = {}
        for number, subtask in enumerate(subtasks):
            mine = [key for key in KEYS if subtask_of(GROUPS[key], 8, next_one) == number]
            assert sorted(subtask.backend.keys(ValueStateDescriptor("value", Types.LONG()))) == mine
            value, _, elements, *_ = states(subtask.backend)
            for subtask.backend.key in mine:
                elements.add(next_one)
                expected[subtask.backend.key] = value.value(), list(elements.get())
    added = [3, 1]
    assert expected == {key: (key, [key] * 600 + added) for key in KEYS}
    for subtask in subtasks:
        subtask.backend.close()


def test_what_a_predecessor_writes_late_does_not_count(job: Job) -> None:
    """A worker that was taken for dead would change the state of its successor."""
    old = job.subtask()
    states(old.backend)[0]
    for old.backend.key in KEYS:
        states(old.backend)[0].update(1)
    files = old.checkpoint()
    job.runs += 1
    new = job.subtask().restored(files)
    for old.backend.key in KEYS:
        states(old.backend)[0].update(2)
    with pytest.raises(CheckpointError, match="belongs to a later run"):
        old.maintained()
    with pytest.raises(CheckpointError, match="belongs to a later run"):
        old.checkpoint()
    assert {known[0] for known in content(new.backend).values()} == {1}
    with pytest.raises(CheckpointError, match="belongs to a later run"):
        job.subtask(run=0).restored(files)
    for one in (old, new):
        one.backend.close()


def test_older_checkpoints_stay_as_long_as_they_are_retained(postgres: PostgresServer, tables: Tables) -> None:
    """The checkpoint before a damaged one could not be restored; or the table would grow for ever."""
    job = Job(postgres.url, cached=0, retained=2)
    subtask = job.subtask()
    value = states(subtask.backend)[0]
    contents, files = [], []
    for turn in range(6):
        for subtask.backend.key in KEYS:
            if turn % 2 and subtask.backend.key % 4 == 0:
                value.clear()
            else:
                value.update(turn)
        files.append(subtask.checkpoint())
        contents.append(content(subtask.backend))
    (rows,) = tables.execute(
        "SELECT count(*) FROM penstock_entries JOIN penstock_states s ON s.id = state "
        f"JOIN penstock_operators o ON o.id = s.operator WHERE job = '{job.id}'"
    )
    # Of the two that are retained and of the one before, which was retained when the last one was written.
    assert rows[0] <= 3 * len(KEYS)
    subtask.backend.close()
    for number in (5, 4):
        job.runs += 1
        again = job.subtask().restored(files[number])
        assert content(again.backend) == contents[number]
        again.backend.close()


def test_removed_keys_leave_nothing_behind(job: Job, tables: Tables) -> None:
    """Each key that ever had state would stay in the database for ever: sessions, windows, devices that are gone."""
    subtask = job.subtask()
    value = states(subtask.backend)[0]
    for subtask.backend.key in range(300):
        value.update(1)
    subtask.checkpoint()
    for subtask.backend.key in range(300):
        value.clear()
    subtask.checkpoint()
    subtask.checkpoint()
    assert tables.execute(
        "SELECT count(*) FROM penstock_entries JOIN penstock_states s ON s.id = state "
        f"JOIN penstock_operators o ON o.id = s.operator WHERE job = '{job.id}'"
    ) == [(0,)]
    subtask.backend.close()


def test_another_job_starts_from_a_checkpoint(postgres: PostgresServer, job: Job) -> None:
    """The state of two jobs would be one: each would overwrite the other's."""
    subtask = job.subtask()
    change(subtask.backend, Random(1), 200)
    files, before = subtask.checkpoint(), content(subtask.backend)
    fork = Job(postgres.url)
    fork.storage = job.storage
    fork.checkpoints = 100
    other = fork.subtask().restored(files)
    assert content(other.backend) == before
    change(subtask.backend, Random(2), 200)
    subtask.checkpoint()
    assert content(other.backend) == before
    forget_job(job.settings, job.id)
    other.maintained()
    again = other.checkpoint()
    other.backend.close()
    fork.runs += 1
    restarted = fork.subtask().restored(again)
    assert content(restarted.backend) == before
    restarted.backend.close()
    third = Job(postgres.url)
    third.storage = job.storage
    with pytest.raises(CheckpointError, match="no longer in PostgreSQL"):
        third.subtask().restored(files)
    subtask.backend.close()


@pytest.mark.parametrize("parallelism", [1, 2])
def test_what_is_kept_no_more_is_no_state_of_an_older_checkpoint(
    postgres: PostgresServer, job: Job, parallelism: int
) -> None:
    """A fork of a running job, or a start from an older checkpoint, would silently lack keys."""
    subtask = job.subtask()
    change(subtask.backend, Random(1), 200)
    older = subtask.checkpoint()
    change(subtask.backend, Random(2), 200)
    newest, expected = subtask.checkpoint(), content(subtask.backend)
    change(subtask.backend, Random(3), 200)
    subtask.written(subtask.frozen(), complete=False)
    fork = Job(postgres.url)
    fork.storage, fork.checkpoints = job.storage, 100
    with pytest.raises(CheckpointError, match="older than the oldest retained one"):
        fork.subtask(0, parallelism).restored(older)
    subtask.backend.close()
    job.runs += 1
    with pytest.raises(CheckpointError, match="older than the oldest retained one"):
        job.subtask(0, parallelism).restored(older)
    for one in (fork, job):
        # Whatever it had before.
        one.subtask(0, parallelism).restored(newest).backend.close()
        one.runs += 1
    if parallelism == 1:
        assert content(job.subtask().restored(newest).backend) == expected


def test_a_savepoint_goes_to_another_backend_and_back(job: Job) -> None:
    """A job could never leave the database, or move into it."""
    subtask = job.subtask()
    change(subtask.backend, Random(5), 300)
    subtask.maintained()
    change(subtask.backend, Random(6), 50)
    expected = content(subtask.backend)
    frozen = subtask.frozen("/savepoint")
    change(subtask.backend, Random(7), 100)
    subtask.maintained()
    saved = subtask.written(frozen)
    assert all(file.columns for file in saved)
    subtask.backend.close()
    heap = job.subtask_on_heap().restored(*([file] for file in saved))
    assert content(heap.backend) == expected
    change(heap.backend, Random(8), 50)
    expected = content(heap.backend)
    saved = heap.written(heap.frozen("/savepoint"))
    # It begins without what the database has of this job.
    job.runs += 1
    back = job.subtask().restored(*([file] for file in saved))
    assert content(back.backend) == expected
    back.backend.close()


def test_a_checkpoint_of_it_is_nothing_for_another_backend(job: Job) -> None:
    """A job would start with no state at all, or with an error that says nothing."""
    subtask = job.subtask()
    change(subtask.backend, Random(1), 20)
    files = subtask.checkpoint()
    with pytest.raises(CheckpointError, match=r"in an external store.*savepoint"):
        job.subtask_on_heap().restored(files)
    subtask.backend.close()


def test_a_map_of_many_entries(job: Job) -> None:
    """Entries that come on a later page would be left out, or come in the state of a later moment."""
    subtask = job.subtask()
    entries = subtask.backend.state(MapStateDescriptor("many", Types.LONG(), Types.LONG()))
    subtask.backend.key = 1
    entries.put_all({number: number for number in range(5_000)})
    subtask.checkpoint()
    walked = iter(entries.items())
    first = next(walked)
    entries.put_all(dict.fromkeys(range(5000), -1))
    subtask.checkpoint()
    assert dict([first, *walked]) == {number: number for number in range(5_000)}
    entries.clear()
    subtask.checkpoint()
    assert entries.is_empty()
    subtask.backend.close()


def test_state_that_no_one_may_use(postgres: PostgresServer, tables: Tables) -> None:
    """An error of the database would show the password, or not say where it is."""
    job = Job(postgres.url.replace("penstock@", "wrong-word@"))
    with pytest.raises(PostgresError, match=r"cannot connect to PostgreSQL at 127\.0\.0\.1") as error:
        states(job.subtask().backend)[0].value()
    assert "wrong-word" not in str(error.value)


def test_an_aggregate_lives_on(job: Job) -> None:
    """A window's accumulator would start again with each restart."""

    class Mean(AggregateFunction):
        def create_accumulator(self) -> Any:
            return (0, 0)

        def add(self, value: Any, accumulator: Any) -> Any:
            return accumulator[0] + value, accumulator[1] + 1

        def get_result(self, accumulator: Any) -> Any:
            return accumulator[0] / accumulator[1]

        def merge(self, a: Any, b: Any) -> Any:
            return a[0] + b[0], a[1] + b[1]

    descriptor = AggregatingStateDescriptor("mean", Mean(), Types.PICKLED_BYTE_ARRAY())
    subtask = job.subtask()
    mean = subtask.backend.state(descriptor)
    subtask.backend.key = "k"
    mean.add(1)
    files = subtask.checkpoint()
    subtask.backend.close()
    job.runs += 1
    again = job.subtask().restored(files)
    mean = again.backend.state(descriptor)
    again.backend.key = "k"
    mean.add(3)
    assert mean.get() == 2
    again.backend.close()


def test_a_checkpoint_that_fails_behind_a_rescale_leaves_the_one_before(job: Job) -> None:
    """Subtasks count their versions for themselves. What the one that was behind had was taken for older than the
    oldest checkpoint: the only one was refused, at each restart."""
    first, second = job.subtask(0, 2), job.subtask(1, 2)
    for subtask in (first, second):
        put(subtask, 100)
    second.checkpoint()
    files = first.checkpoint(), second.checkpoint()
    for number, parallelism in enumerate((1, 1, 2)):
        job.runs += 1
        again = [job.subtask(subtask, parallelism).restored(*files) for subtask in range(parallelism)]
        for subtask in again:
            assert got(subtask) == {key: 100 + key for key in KEYS if GROUPS[key] in subtask.groups}
            put(subtask, 500 + number)
            subtask.written(subtask.frozen(), complete=False)
            subtask.backend.close()


@pytest.mark.parametrize("forks", [False, True])
def test_a_checkpoint_whose_state_was_removed_is_refused(job: Job, forks: bool) -> None:
    """The job has begun once without it, from a savepoint for example: its versions were counted from 1 again, and the
    earlier checkpoint found those of later, or nothing."""
    one = job.subtask()
    put(one, 100)
    files = one.checkpoint()
    one.backend.close()
    job.runs += 1
    empty = job.subtask()
    put(empty, 900)
    later = empty.checkpoint()
    empty.backend.close()
    job.runs += 1
    other = job
    if forks:
        other = Job(job.settings.url)
        other.storage, other.checkpoints = job.storage, 100
    with pytest.raises(CheckpointError, match="no longer has all state"):
        other.subtask().restored(files)
    if forks:
        # One that was perhaps on record: what comes next must not make it one that can be started from.
        fork = other.subtask().restored(later)
        put(fork, 500)
        unsure = fork.written(fork.frozen(), complete=False)
        fork.backend.close()
        other.runs += 1
        fork = other.subtask().restored(later)
        put(fork, 700)
        fork.written(fork.frozen(), complete=False)
        fork.backend.close()
        other.runs += 1
        with pytest.raises(CheckpointError, match="no longer has all state"):
            other.subtask().restored(unsure)
    assert got(other.subtask().restored(later)) == {key: 900 + key for key in KEYS}


def put(subtask: Any, number: int) -> None:
    """A value for each key of a subtask."""
    value, *_ = states(subtask.backend)
    for key in KEYS:
        if GROUPS[key] in subtask.groups:
            subtask.backend.key = key
            value.update(number + key)


def got(subtask: Any) -> dict[int, int]:
    """The value of each key of a subtask."""
    value, *_ = states(subtask.backend)
    found = {}
    for key in KEYS:
        if GROUPS[key] in subtask.groups:
            subtask.backend.key = key
            found[key] = value.value()
    return found
