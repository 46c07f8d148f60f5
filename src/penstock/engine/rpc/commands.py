"""Send commands to a running job from another process of the same user."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import zmq

from penstock.common.errors import JobError
from penstock.engine.rpc.client import dealer
from penstock.engine.rpc.failures import revive
from penstock.engine.rpc.keys import ControlAddress
from penstock.engine.rpc.messages import Answer, Command, decode_from_job_master, encode

_POLL_MS = 500


def send_command(
    address: ControlAddress,
    command: Command,
    timeout_s: float | None,
    is_running: Callable[[], bool],
    no_answer: str = "the job does not answer",
) -> str:
    """Return the job's answer. Raise JobError if the job refuses, does not answer in time, or ends meanwhile.

    `is_running`: whether the job still runs. `timeout_s`: None waits as long as the job runs. `no_answer`: the error's
    text after the timeout.
    """
    context = zmq.Context()
    socket = dealer(context, address, linger_ms=0)
    try:
        socket.send(encode(command))
        until = math.inf if timeout_s is None else time.monotonic() + timeout_s
        runs = True
        while not socket.poll(_POLL_MS):
            if not runs:
                raise JobError("the job has ended without an answer")
            # Poll once more after the job has ended: the answer may be in transit.
            runs = is_running()
            if time.monotonic() > until:
                raise JobError(no_answer)
        answer = decode_from_job_master(socket.recv())
    finally:
        socket.close()
        context.term()
    assert isinstance(answer, Answer)
    if not answer.done:
        raise revive(answer.error, answer.text)
    return answer.text
