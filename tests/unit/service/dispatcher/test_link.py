"""The link between a dispatcher and the process of a job."""

from __future__ import annotations

import socket
import threading

from penstock.common.job_status import JobStatus
from penstock.engine.rpc.keys import ControlAddress
from penstock.service.cluster.rest_address import RestAddress
from penstock.service.dispatcher.events import (
    AcceptsCommands,
    Began,
    CancelJob,
    JobEnded,
    Leads,
    SlotsAnswer,
    SlotsWanted,
)
from penstock.service.dispatcher.link import dispatcher_end, job_end


def test_all_that_is_said_arrives_in_order() -> None:
    """A cluster would not know of a job's end, or a job not of its slots."""
    ours, theirs = socket.socketpair()
    job, dispatcher = job_end(theirs), dispatcher_end(ours)
    said = [
        Began(1, "a", "job", RestAddress("http://127.0.0.1:1", "file")),
        AcceptsCommands(2, "a", ControlAddress("tcp://127.0.0.1:1", b"\xff\n", b"", b"")),
        SlotsWanted(3, "a", 4),
        JobEnded(4, "a", JobStatus.FAILED, "UserFunctionError", "two\nlines, and \N{SNOWMAN}"),
    ]
    for message in said:
        job.send(message)
    told = [SlotsAnswer("a", True, 3), CancelJob("a")]
    for answer in told:
        dispatcher.send(answer)
    arrived = dispatcher.received()
    assert [next(arrived) for _ in said] == said
    answers = job.received()
    assert [next(answers) for _ in told] == told


def test_the_end_of_the_other_side_ends_it() -> None:
    """A dispatcher would wait for ever for a process that was killed as it said something."""
    ours, theirs = socket.socketpair()
    dispatcher = dispatcher_end(ours)
    received: list[object] = []
    thread = threading.Thread(target=lambda: received.extend(dispatcher.received()))
    thread.start()
    theirs.sendall(b'{"type":"SlotsWanted","at_ms":1,"id":"a","sl')
    theirs.close()
    thread.join(10)
    assert not thread.is_alive()
    assert received == []
    dispatcher.send(CancelJob("a"))


def test_a_process_that_reads_nothing_holds_nobody_up() -> None:
    """One job that is stopped would keep the others from being told that their dispatcher leads: they would end."""
    ours, theirs = socket.socketpair()
    job, dispatcher = job_end(theirs), dispatcher_end(ours)
    for number in range(100_000):
        dispatcher.send_unless_blocked(Leads("a", number, number))
    answers = job.received()
    assert [next(answers) for _ in range(3)] == [Leads("a", number, number) for number in range(3)]
