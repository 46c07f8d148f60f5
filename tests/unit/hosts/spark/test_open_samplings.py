"""Flame graphs between those who ask and the job master."""

from __future__ import annotations

import pytest

from penstock.common.errors import JobError
from penstock.engine.jobmaster.effects import StacksReply
from penstock.engine.jobmaster.events import StacksRequested
from penstock.engine.runtime.task.events import StacksSampled
from penstock.hosts.spark.driver.open_requests import OpenSamplings

FOUND = [StacksSampled(1, 0, 1, [])]


def test_each_request_gets_its_answer_once() -> None:
    """A page would show another vertex's code."""
    posted: list[StacksRequested] = []

    def post(event: StacksRequested) -> bool:
        posted.append(event)
        return True

    open_samplings = OpenSamplings(post)
    first, second, third = (open_samplings.request(vertex, samples=100, delay_ms=50, depth=10) for vertex in range(3))
    assert [(event.vertex, event.samples, event.delay_ms, event.depth) for event in posted] == [
        (vertex, 100, 50, 10) for vertex in range(3)
    ]
    third.cancel()
    open_samplings.answer(StacksReply(posted[2].request, FOUND))
    open_samplings.answer(StacksReply(posted[1].request, error=JobError("restarts")))
    open_samplings.answer(StacksReply(posted[0].request, FOUND))
    open_samplings.answer(StacksReply(posted[0].request))
    assert first.result(0) == FOUND
    with pytest.raises(JobError, match="restarts"):
        second.result(0)


def test_a_job_that_has_ended_or_ends_answers() -> None:
    """A page that asks at the end of a job would wait forever."""
    ended, ends = OpenSamplings(lambda event: False), OpenSamplings(lambda event: True)
    asked = [ended.request(1, samples=100, delay_ms=50, depth=10), ends.request(1, samples=100, delay_ms=50, depth=10)]
    ends.end()
    for one in asked:
        with pytest.raises(JobError, match="has ended"):
            one.result(0)
