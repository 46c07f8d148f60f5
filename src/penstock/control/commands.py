"""Asking something of a running job from another process of the same user."""

from __future__ import annotations

import zmq

from penstock.common.errors import JobError
from penstock.control.keys import ControlAddress
from penstock.control.messages import Answered, Command, decode_from_job_manager, encoder


def ask(address: ControlAddress, command: Command, timeout_s: float | None = None) -> str:
    """The job's answer. Raises JobError with its words if it refuses, or if it does not answer in time."""
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    try:
        socket.curve_serverkey = address.server_public
        socket.curve_publickey = address.client_public
        socket.curve_secretkey = address.client_secret
        socket.linger = 0
        socket.connect(address.endpoint)
        socket.send(encoder.encode(command))
        if not socket.poll(None if timeout_s is None else int(timeout_s * 1000)):
            raise JobError(f"the job does not answer at {address.endpoint}")
        answer = decode_from_job_manager(socket.recv())
    finally:
        socket.close()
        context.term()
    assert isinstance(answer, Answered)
    if not answer.done:
        raise JobError(answer.text)
    return answer.text
