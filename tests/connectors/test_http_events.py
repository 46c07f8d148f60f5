"""Events read from a server whose connections end, fail and are slow."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest
from tests.connectors.driven import SourceInTest, until
from tests.connectors.http_service import Answer, HttpService, cut, events, slow, status

from penstock.common.errors import SourceError
from penstock.datastream.connectors.http import (
    ServerSentEvent,
    ServerSentEventSource,
)

pytestmark = pytest.mark.connectors


def source_of(service: HttpService, **settings: Any) -> ServerSentEventSource:
    return ServerSentEventSource(**{"url": f"{service.url}/events", "backoff_ms": 1, "backoff_max_ms": 2, **settings})


def numbered(*ids: int, then: threading.Event | None = None) -> Answer:
    return events("".join(f"id: {id}\ndata: {id}\n\n" for id in ids), then)


def fetchers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "penstock-events"}


def last_ids(service: HttpService) -> list[str | None]:
    return [asked.headers.get("Last-Event-ID") for asked in service.asked]


def test_the_position_is_the_id_of_the_last_event() -> None:
    """Events would be lost, or come twice, when a connection ends or a job is restored."""
    # The first run, which reads ahead, gets no third answer.
    quiet = threading.Event()
    answers = numbered(1, 2), numbered(3, 4, 5, then=quiet), numbered(5)
    with HttpService(*answers, usual=status(204)) as service:
        run = SourceInTest(source_of(service), parallelism=2)
        assert [event.data for event in run.values(4, max_records=2)] == ["1", "2", "3", "4"]
        state = run.snapshot()
        run.close()
        service.asked.clear()
        again = SourceInTest(source_of(service), parallelism=2, state=state)
        assert again.values() == [ServerSentEvent("message", "5", "5")]
        again.close()
        assert last_ids(service) == ["4", "5"]
    quiet.set()


@pytest.mark.parametrize(
    "fault",
    [status(503, Retry_After="0"), status(429), cut, slow(0.5), events(": nothing\n\n")],
    ids=["503", "429", "cut", "slow", "ended"],
)
def test_a_server_in_trouble(fault: Any) -> None:
    """A server that restarts would cost the job its attempt, or the job events."""
    with HttpService(fault, numbered(1, 2), fault, fault, numbered(3), usual=status(204)) as service:
        run = SourceInTest(source_of(service, timeout_ms=200, max_retries=2))
        assert [event.data for event in run.values()] == ["1", "2", "3"]
        run.close()
        assert last_ids(service) == [None, None, "2", "2", "2", "3"]


def test_the_pause_is_that_of_the_server() -> None:
    """A server that limits the rate of requests would get more, also from a restored job."""
    with HttpService(events("retry: 300\nid: a\ndata: 1\n\n"), numbered(2), usual=status(204)) as service:
        run = SourceInTest(source_of(service))
        assert len(run.values(1)) == 1
        _, ((split,),) = run.snapshot()
        assert (split.last_id, split.retry_ms) == ("a", 300)
        assert len(run.values()) == 1
        run.close()
        times = [asked.at_s for asked in service.asked]
        assert times[1] - times[0] >= 0.3 and times[2] - times[1] >= 0.3


def test_a_server_that_wants_no_pause_and_has_nothing() -> None:
    """The server, and the worker, would be busy with a thousand connections a second that bring nothing."""
    with HttpService(*[events("retry: 0\n\n")] * 3, numbered(1), usual=status(204)) as service:
        run = SourceInTest(source_of(service, backoff_ms=200, backoff_max_ms=200))
        assert len(run.values()) == 1
        run.close()
        times = [asked.at_s for asked in service.asked]
        assert min(after - before for before, after in itertools.pairwise(times[:4])) >= 0.1


def test_a_position_without_an_event() -> None:
    """With each connection and restart, a filtering reader would receive all skipped events again."""
    quiet = threading.Event()
    with HttpService(events("id: 1\ndata: 1\n\nid: 7\n\n", quiet), numbered(8), usual=status(204)) as service:
        run = SourceInTest(source_of(service))
        assert [event.id for event in run.values(1)] == ["1"]

        def position() -> str:
            run.readers[0].poll(10)
            _, ((split,),) = run.snapshot()
            return str(split.last_id)

        until(lambda: position() == "7")
        quiet.set()
        assert [event.id for event in run.values()] == ["8"]
        run.close()
        assert last_ids(service) == [None, "7", "8"]


@pytest.mark.parametrize(
    ("answer", "requests", "said"),
    [
        (status(500), 3, "answered 500: so. 3 tries failed"),
        (status(404), 1, "Check the path"),
        (status(200, Content_Type="text/html"), 1, "must answer with text/event-stream, got text/html"),
        (status(200, Content_Type="text/event-stream", Content_Encoding="gzip"), 1, "in the encoding gzip"),
    ],
)
def test_what_no_stream_is(answer: Any, requests: int, said: str) -> None:
    """The job would wait for events for ever."""
    with HttpService(usual=answer) as service:
        run = SourceInTest(source_of(service, max_retries=2))
        with pytest.raises(SourceError, match=said):
            run.values()
        run.close()
        assert len(service.asked) == requests


def test_silence() -> None:
    """A connection whose server has lost its power would be waited at for ever."""
    quiet = threading.Event()
    with HttpService(numbered(1, then=quiet), numbered(2), usual=status(204)) as service:
        run = SourceInTest(source_of(service, idle_timeout_ms=100))
        assert [event.data for event in run.values()] == ["1", "2"]
        run.close()
        assert last_ids(service) == [None, "1", "2"]
    quiet.set()


def test_it_closes_while_nothing_comes() -> None:
    """A job could be canceled before the next event only by killing its workers."""
    quiet, others = threading.Event(), fetchers()
    with HttpService(numbered(1, then=quiet)) as service:
        run = SourceInTest(source_of(service, last_event_id="ä0", headers={"X-Of": "me"}))
        assert len(run.values(1)) == 1
        run.close()
        assert not fetchers() - others
        asked = service.asked[0].headers
        assert asked["Last-Event-ID"].encode("latin-1").decode() == "ä0"
        assert (asked["Accept"], asked["X-Of"]) == ("text/event-stream", "me")
    quiet.set()
