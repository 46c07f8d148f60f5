"""Queryable state for programs on an event loop: what the other client is told, without a thread for each question."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.unit.engine.jobmaster.played_job import plan
from tests.unit.service.rest.served import PlayedJob, Served
from tests.unit.state_processor.conftest import write_snapshot

from penstock.common.errors import JobError, StateNotFoundError
from penstock.datastream.queryable_state import AsyncQueryableStateClient, QueryableStateClient
from penstock.engine.jobmaster.state_query import LiveState
from penstock.engine.rpc.messages import ReadAnswer, ReadCommand
from penstock.engine.rpc.server import ControlServer
from penstock.engine.runtime.task.events import Opaque
from penstock.engine.state.keys import KeyTypeError
from penstock.service.cluster.running_jobs import JobRegistry, RunningJob

JOB = "0123456789abcdef0123456789abcdef"
AT_ONCE = 200


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A job whose third checkpoint is on disk."""
    one = Served(tmp_path, PlayedJob(plan()), checkpoints=str(write_snapshot(tmp_path / "job", savepoint=False).parent))
    one.job.played.runs()
    for _ in range(3):
        one.job.played.takes_checkpoint()
    one.job.played.waits(1_000)
    yield one
    one.endpoint.close()


class Refused(NamedTuple):
    error: type[Exception]
    text: str


def both(served: Served, method: str, *arguments: Any, token: str | None = None, **more: Any) -> list[Any]:
    """What the client and the one for event loops answer, or the type and text of what they raise."""
    at = served.endpoint.address.url, served.endpoint.token if token is None else token
    told: list[Any] = []

    async def asked() -> Any:
        async with AsyncQueryableStateClient(*at) as client:
            return await getattr(client, method)(*arguments, **more)

    for ask in (lambda: getattr(QueryableStateClient(*at), method)(*arguments, **more), lambda: asyncio.run(asked())):
        try:
            told.append(ask())
        except (JobError, StateNotFoundError, KeyTypeError, ValueError) as error:
            told.append(Refused(type(error), str(error)))
    return told


def test_both_clients_are_told_the_same(served: Served) -> None:
    """A program would have to be written anew where it is put on an event loop."""
    served.job.live = LiveState(
        "count", "count", "value of Long", ["key", "value"], [Opaque([(7, (1, "a"))]), Opaque([])], True
    )
    questions: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("states", ("id",), {}),
        ("entries", ("id",), {"operator": "count", "state": "window/seen", "keys": [7]}),
        ("entries", ("id",), {"operator": "count", "state": "count", "limit": 3}),
        ("get_kv_state", ("id", "counts", 7), {"isolation": "read-uncommitted"}),
        ("get_kv_states", ("id", "counts", [7, 9]), {"isolation": "read-uncommitted"}),
    ]
    for method, arguments, more in questions:
        first, second = both(served, method, *arguments, **more)
        assert (first == second and first and not isinstance(first, tuple)) or first == (1, "a") == second, method
    assert len(both(served, *questions[2][:1], *questions[2][1], **questions[2][2])[1].entries) == 3


def test_both_clients_raise_the_same(served: Served) -> None:
    """What is caught around the one would not be caught around the other."""
    count = {"operator": "count", "state": "count"}
    wrong: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("get_kv_state", ("id", "x", 1), {}),
        ("states", ("none",), {}),
        ("states", ("id",), {"token": "0"}),
        ("entries", ("id",), {**count, "keys": [object]}),
        ("entries", ("id",), {**count, "limit": -1}),
        ("get_kv_state", ("id", "counts", 7), {"isolation": "read-uncommitted"}),
    ]
    for method, arguments, more in wrong:
        first, second = both(served, method, *arguments, **more)
        assert first == second and isinstance(first, Refused), (first, second)
    served.endpoint.close()
    first, second = both(served, "states", "id")
    assert first.error is second.error is JobError and "nothing answers at" in second.text
    without = asyncio.run(_raised(AsyncQueryableStateClient("", "").states("id")))
    assert "has no REST" in str(without)


async def _raised(asked: Any) -> BaseException:
    with pytest.raises(JobError) as raised:
        await asked
    return raised.value


class Control:
    """The control port of a job of this machine. It answers when so many questions have come, the last one first."""

    def __init__(self, at_once: int) -> None:
        self.threads: set[str] = set()
        self._at_once = at_once
        self._asked: list[tuple[bytes, ReadCommand]] = []
        self.server = ControlServer("127.0.0.1")
        self.server.start(self._on_message, lambda: None)
        JobRegistry().add(RunningJob(JOB, "a job", os.getpid(), 0, self.server.address, None))

    def _on_message(self, identity: bytes, message: object) -> None:
        assert isinstance(message, ReadCommand) and message.keys is not None
        self._asked.append((identity, message))
        if len(self._asked) == self._at_once:
            self.threads = {thread.name for thread in threading.enumerate()}
            for sender, command in reversed(self._asked):
                rows = Opaque([(int(command.keys[0]), command.name)])
                self.server.send(
                    sender, ReadAnswer(command.number, "", "", "o", "s", "", ["key", "value"], [rows], True)
                )


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Control]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one = Control(AT_ONCE)
    yield one
    one.server.stop()


def test_many_live_questions_at_once_need_one_thread(control: Control) -> None:
    """A web server that asks for each of its requests would have as many threads as requests."""
    before = {thread.name for thread in threading.enumerate()}

    async def ask() -> list[Any]:
        client, job_id = AsyncQueryableStateClient.of_job("a job")
        async with client:
            given_up = asyncio.create_task(client.get_kv_state(job_id, "s", 0, "read-uncommitted"))
            questions = [
                asyncio.create_task(client.get_kv_state(job_id, f"s{key}", key, "read-uncommitted"))
                for key in range(1, AT_ONCE)
            ]
            # Each has asked when the others are asked.
            await asyncio.sleep(0)
            given_up.cancel()
            answers = await asyncio.gather(*questions)
            with pytest.raises(StateNotFoundError, match="of_job"):
                await client.get_kv_state("another", "s", 1, "read-uncommitted")
            return answers

    assert asyncio.run(ask()) == [f"s{key}" for key in range(1, AT_ONCE)]
    assert control.threads - before <= {"penstock-state"}


def test_a_closed_client_says_so(control: Control) -> None:
    """A question to a job that nobody is connected to would wait for a minute."""

    async def ask() -> None:
        client, job_id = AsyncQueryableStateClient.of_job(JOB)
        await client.close()
        with pytest.raises(JobError, match="was closed"):
            await client.get_kv_state(job_id, "s", 1, "read-uncommitted")

    asyncio.run(ask())
