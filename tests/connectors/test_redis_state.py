"""Keyed state in Redis behind a write-ahead log: checkpoints, restores, fences, what is left."""

from __future__ import annotations

import itertools
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
from tests.connectors.redis_keys import Keys
from tests.first_cases import first_of

from penstock.common.errors import CheckpointError
from penstock.connectors.redis.server import RedisConnection, RedisError
from penstock.connectors.redis.server import RedisServer as Server
from penstock.engine.state.backends.versioned.store import StoreOwner, StoreVersion
from penstock.engine.state.handles import KeyedFile, store_files_of
from penstock.engine.state.key_groups import subtask_of
from penstock.engine.stores.redis import RedisStore, forget_job
from penstock.testing.redis_server import RedisServer

pytestmark = pytest.mark.connectors


@pytest.fixture
def job(redis_server: RedisServer) -> Job:
    return Job(redis_server.url)


def log_bytes(files: list[KeyedFile]) -> int:
    return sum(file.bytes for file in store_files_of(files))


@pytest.mark.parametrize("seed", first_of(3, range(6)))
def test_it_is_the_state_of_a_heap(job: Job, seed: int) -> None:
    """Any sequence of accesses, checkpoints that fail or complete, and restarts gives what memory would give."""
    check_like_a_heap(job, seed)


def test_classes_that_have_changed_are_noticed_by_a_restore(job: Job) -> None:
    """The state of such keys would be lost, silently, and a value that can't be made would fail a later record."""
    check_changed_classes(job)


def test_redis_has_what_is_complete_and_nothing_else(redis_server: RedisServer) -> None:
    """A restart would find what comes after its checkpoint; or the log would grow for ever."""
    job = Job(redis_server.url, cached=0)
    keys = Keys(redis_server.url)
    subtask = job.subtask()
    value = states(subtask.backend)[0]

    def stored() -> int:
        found = keys.client.scan_iter(match=f"penstock/state/{job.id}/*/values/*", count=1_000)
        return sum(keys.client.hlen(name) for name in found)

    for subtask.backend.key in KEYS:
        value.update(1)
    subtask.maintained()
    frozen = subtask.frozen()
    files = subtask.written(frozen, complete=False)
    assert stored() == 0
    subtask.backend.checkpoint_complete(frozen.checkpoint_id)
    assert stored() == len(KEYS)
    logged = log_bytes(files)
    assert log_bytes(subtask.checkpoint()) < logged / 4, "the log holds only what is not complete"
    for subtask.backend.key in KEYS:
        value.clear()
    subtask.checkpoint()
    assert stored() == 0
    subtask.backend.close()
    forget_job(job.settings, job.id)
    assert not keys.client.keys(f"penstock/state/{job.id}*")


@pytest.mark.parametrize("told", [True, False])
def test_rescaled(job: Job, told: bool) -> None:
    """With another parallelism keys would be lost, doubled, or new elements of a list would replace old ones."""
    subtasks = [job.subtask(number, 2) for number in range(2)]
    for number, subtask in enumerate(subtasks):
        value, _, elements, *_ = states(subtask.backend)
        for subtask.backend.key in [key for key in KEYS if subtask_of(GROUPS[key], 8, 2) == number]:
            value.update(subtask.backend.key)
            elements.update([subtask.backend.key] * 300)
    expected: dict[int, Any] = {}
    for parallelism, after in ((2, 3), (3, 1)):
        olds = [subtask.written(subtask.frozen(), complete=told) for subtask in subtasks]
        for subtask in subtasks:
            subtask.backend.close()
        # The first attempt of the next run dies at once.
        for subtask in spread(job, olds, parallelism, after):
            subtask.backend.close()
        subtasks = spread(job, olds, parallelism, after)
        expected = {}
        for number, subtask in enumerate(subtasks):
            value, _, elements, *_ = states(subtask.backend)
            for subtask.backend.key in [key for key in KEYS if subtask_of(GROUPS[key], 8, after) == number]:
                elements.add(after)
                expected[subtask.backend.key] = value.value(), list(elements.get())
    assert expected == {key: (key, [key] * 300 + [3, 1]) for key in KEYS}
    for subtask in subtasks:
        subtask.backend.close()


def test_what_a_predecessor_applies_late_does_not_count(job: Job) -> None:
    """A worker that was taken for dead would change the state of its successor."""
    old = job.subtask()
    for old.backend.key in KEYS:
        states(old.backend)[0].update(1)
    files = old.checkpoint()
    late = old.frozen()
    job.runs += 1
    new = job.subtask().restored(files)
    for old.backend.key in KEYS:
        states(old.backend)[0].update(2)
    old.written(late, complete=False)
    with pytest.raises(CheckpointError, match="belongs to a later run"):
        old.backend.checkpoint_complete(late.checkpoint_id)
    assert {known[0] for known in content(new.backend).values()} == {1}
    with pytest.raises(CheckpointError, match="belongs to a later run"):
        job.subtask(run=0).restored(files)
    for one in (old, new):
        one.backend.close()


def test_a_predecessor_that_was_stopped_while_it_began_changes_nothing(job: Job) -> None:
    """A suspended worker that had the state to itself would remove its successor's state when it continues."""
    begun = RedisStore(Server(job.settings.url), StoreOwner(job.id, "holder", 0, 8, 0))

    class Stopped(list[StoreVersion]):
        def __iter__(self) -> Iterator[StoreVersion]:
            job.runs += 1
            new = job.subtask()
            for new.backend.key in KEYS:
                states(new.backend)[0].update(1)
            new.checkpoint()
            new.backend.close()
            return super().__iter__()

    with pytest.raises(CheckpointError, match="belongs to a later run"):
        begun.begin(Stopped())
    begun.close()


def test_there_is_no_way_back_beyond_the_newest_checkpoint(job: Job) -> None:
    """A job would silently continue with a mixture of two checkpoints, or without state."""
    subtask = job.subtask()
    change(subtask.backend, Random(1), 100)
    older = subtask.checkpoint()
    change(subtask.backend, Random(2), 100)
    newer = subtask.checkpoint()
    subtask.backend.close()
    job.runs += 1
    with pytest.raises(CheckpointError, match="belongs to a later checkpoint"):
        job.subtask().restored(older)
    forget_job(job.settings, job.id)
    with pytest.raises(CheckpointError, match="no longer in Redis"):
        job.subtask().restored(newer)


def test_what_was_applied_in_part_is_no_state_of_an_older_checkpoint(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job whose newest checkpoint is damaged would continue from the previous one with some values of the newest."""
    subtask = job.subtask()
    states(subtask.backend)
    subtask.backend.key = 1
    older = subtask.checkpoint()
    entries = states(subtask.backend)[1]
    entries.put_all(dict.fromkeys(range(3_000), 1))
    frozen = subtask.frozen()
    newest = subtask.written(frozen, complete=False)
    call, calls = RedisConnection.call, itertools.count()

    def cut_off(self: RedisConnection, ask: Any) -> Any:
        if next(calls) == 4:
            raise RedisError("the connection is cut off")
        return call(self, ask)

    with monkeypatch.context() as patch:
        patch.setattr(RedisConnection, "call", cut_off)
        with pytest.raises(RedisError):
            subtask.backend.checkpoint_complete(frozen.checkpoint_id)
    subtask.backend.close()
    job.runs += 1
    with pytest.raises(CheckpointError, match="belongs to a later checkpoint"):
        job.subtask().restored(older)
    restored = job.subtask().restored(newest)
    restored.backend.key = 1
    assert len(dict(states(restored.backend)[1].items())) == 3_000
    restored.backend.close()


def test_another_job_does_not_start_from_a_mixture(
    redis_server: RedisServer, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a fork copies the state, its job continues and applies its next checkpoint."""
    subtask = job.subtask()
    call, refused = RedisConnection.call, 0
    for moment in range(0, 30, 3):
        change(subtask.backend, Random(moment), 100)
        files, expected = subtask.checkpoint(), content(subtask.backend)
        calls = itertools.count()

        def while_the_job_goes_on(self: RedisConnection, ask: Any, moment: int = moment, calls: Any = calls) -> Any:
            if next(calls) == moment:
                change(subtask.backend, Random(100 + moment), 100)
                subtask.checkpoint()
            return call(self, ask)

        fork = Job(redis_server.url)
        fork.storage, fork.checkpoints = job.storage, 100 * moment + 100
        begun = fork.subtask()
        with monkeypatch.context() as patch:
            patch.setattr(RedisConnection, "call", while_the_job_goes_on)
            try:
                begun.restored(files)
            except CheckpointError as error:
                assert "belongs to a later checkpoint" in str(error)
                refused += 1
                continue
        assert content(begun.backend) == expected
        begun.backend.close()
    assert refused > 1
    subtask.backend.close()


def test_another_job_starts_from_a_checkpoint(redis_server: RedisServer, job: Job) -> None:
    """The state of two jobs would be one: each would overwrite the other's."""
    subtask = job.subtask()
    change(subtask.backend, Random(1), 200)
    files, before = subtask.checkpoint(), content(subtask.backend)
    fork = Job(redis_server.url)
    fork.storage, fork.checkpoints = job.storage, 100
    other = fork.subtask().restored(files)
    change(subtask.backend, Random(2), 200)
    subtask.checkpoint()
    assert content(other.backend) == before
    forget_job(job.settings, job.id)
    again = other.checkpoint()
    other.backend.close()
    fork.runs += 1
    restarted = fork.subtask().restored(again)
    assert content(restarted.backend) == before
    for one in (restarted, subtask):
        one.backend.close()


def test_a_savepoint_goes_to_another_backend_and_back(job: Job) -> None:
    """A job could never leave Redis, or move into it."""
    subtask = job.subtask()
    change(subtask.backend, Random(5), 300)
    subtask.checkpoint()
    change(subtask.backend, Random(6), 50)
    subtask.maintained()
    expected = content(subtask.backend)
    frozen = subtask.frozen("/savepoint")
    change(subtask.backend, Random(7), 100)
    subtask.maintained()
    saved = subtask.written(frozen)
    subtask.backend.close()
    heap = job.subtask_on_heap().restored(*([file] for file in saved))
    assert content(heap.backend) == expected
    saved = heap.written(heap.frozen("/savepoint"))
    job.runs += 1
    back = job.subtask().restored(*([file] for file in saved))
    assert content(back.backend) == expected
    back.backend.close()


def test_a_server_that_is_not_there() -> None:
    """An error would not say where the state is."""
    with pytest.raises(RedisError, match=r"Redis at 127\.0\.0\.1:1/0"):
        states(Job("redis://127.0.0.1:1/0").subtask().backend)[0].value()
