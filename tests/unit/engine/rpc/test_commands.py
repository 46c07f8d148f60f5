"""Asking a running job, which may end before it has answered."""

from __future__ import annotations

import time

import pytest

from penstock.common.errors import JobError
from penstock.engine.rpc.commands import send_command
from penstock.engine.rpc.messages import Answer, Command
from penstock.engine.rpc.server import ControlServer


class Served:
    """A job's server. `answers` False: it receives commands and never answers."""

    def __init__(self, answers: bool) -> None:
        self.answers = answers
        self.server = ControlServer("127.0.0.1")
        self.server.start(self.on_message, lambda: None)

    def on_message(self, identity: bytes, message: object) -> None:
        if self.answers:
            self.server.send(identity, Answer(True, "RUNNING"))
            self.server.stop()


def test_an_answer_given_in_the_last_moment_arrives() -> None:
    """`penstock stop` would wait for ever for a job that has stopped."""
    served = Served(answers=True)
    assert send_command(served.server.address, Command("status"), None, lambda: False) == "RUNNING"


def test_a_job_that_ends_without_an_answer() -> None:
    """`penstock savepoint` would wait for ever for a driver that was killed."""
    served = Served(answers=False)
    started_s = time.monotonic()
    with pytest.raises(JobError, match="has ended"):
        send_command(served.server.address, Command("savepoint"), None, lambda: time.monotonic() < started_s + 0.3)
    with pytest.raises(JobError, match="does not answer"):
        send_command(served.server.address, Command("status"), 0.1, lambda: True)
    with pytest.raises(JobError, match=r"'flights' of process 7"):
        send_command(
            served.server.address, Command("status"), 0.1, lambda: True, "no answer from 'flights' of process 7"
        )
    served.server.stop()
