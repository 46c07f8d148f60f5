"""The parts of the HTTP connectors that need no server: events of bytes, addresses, pauses, names of batches."""

from __future__ import annotations

import datetime
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.http.endpoint import PAUSE_MAX_MS, Backoff, Endpoint, HttpError, retry_after_ms
from penstock.connectors.http.events import EventParser
from penstock.datastream.connectors.http import HttpBody, HttpSink, ServerSentEvent, ServerSentEventSource

STREAM = (
    "\ufeff: a comment\r\n"
    "data: one\n\n"
    "event: add\rid: 7\rdata:two\rdata:  lines\r\r"
    "id: 8\n\n"
    "data\n\n"
    "id: 9\0\nid\nretry: 5x\nretry: 250\nunknown: x\ndata: ünïcode 🚀\r\n\r\n"
    "data: not whole"
)
EVENTS = [
    ServerSentEvent("message", "one", ""),
    ServerSentEvent("add", "two\n lines", "7"),
    ServerSentEvent("message", "", "8"),
    ServerSentEvent("message", "ünïcode 🚀", ""),
]


@given(st.integers(1, 40))
def test_events_however_they_arrive(size: int) -> None:
    """An event would be another one, or two, if the network cuts it at another byte."""
    data, parser = STREAM.encode(), EventParser("before", None)
    found = [event for start in range(0, len(data), size) for event in parser.feed(data[start : start + size])]
    assert found == [EVENTS[0]._replace(id="before"), *EVENTS[1:]]
    assert (parser.last_id, parser.retry_ms) == ("", 250)


def test_an_event_is_there_with_its_last_byte() -> None:
    """Events of servers whose lines end with a CR would come one event late."""
    parser = EventParser("", None)
    assert [event.data for event in parser.feed(b"data: 1\r\r")] == ["1"]
    assert parser.feed(b"\n") == []
    assert [event.data for event in parser.feed(b"data: 2\n\n")] == ["2"]


def test_a_long_event_in_small_pieces() -> None:
    """A worker would be busy for a minute with an event of some megabytes, since each piece had it read again."""
    parser, size, piece = EventParser("", None), 16_000_000, b"x" * 2_000
    parser.feed(b"data: ")
    for _ in range(size // len(piece)):
        assert not parser.feed(piece)
    (event,) = parser.feed(b"\n\n")
    assert len(event.data) == size


def test_what_a_server_may_say_at_the_most() -> None:
    """A server, or who sits before it, could end the job by one long number, or fill a worker's memory."""
    parser = EventParser("", None)
    parser.feed(b"retry: " + b"9" * 5000 + b"\n")
    assert parser.retry_ms == PAUSE_MAX_MS
    with pytest.raises(HttpError, match="is longer than"):
        for _ in range(12):
            parser.feed(b"data\n" * 100_000)


@pytest.mark.parametrize(
    ("url", "shown", "target"),
    [
        ("https://ada:wonder%40land@hooks.example/in?token=secret", "https://hooks.example/in", "/in?token=secret"),
        ("http://[::1]:8080", "http://[::1]:8080", "/"),
        ("http://bücher.example/ä?q=%C3%BC&r=ü", "http://bücher.example/ä", "/%C3%A4?q=%C3%BC&r=%C3%BC"),
    ],
)
def test_an_address_says_no_secret(url: str, shown: str, target: str) -> None:
    """Passwords and tokens would be in logs, plans and errors."""
    endpoint = Endpoint(url, headers=(("authorization", "Bearer secret"),))
    assert (str(endpoint), repr(endpoint)) == (shown, f"Endpoint({shown})")
    assert endpoint.target == target
    assert endpoint.all_headers(Accept="*/*") == {"Accept": "*/*", "authorization": "Bearer secret"}
    assert "secret" not in HttpSink(url=url).describe()


def test_user_and_password_of_an_address() -> None:
    """A server that asks for them would refuse what has them."""
    headers = Endpoint("http://ada:wonder%40land@host/").all_headers()
    assert headers == {"Authorization": "Basic YWRhOndvbmRlckBsYW5k"}


@pytest.mark.parametrize(
    "url", ["ftp://host/", "host/path", "https://", "http://host:x/", "http://host/a b", "http://a..b/", 7]
)
def test_what_is_no_address(url: str) -> None:
    """The job would start, and fail in each task."""
    for connector in (HttpSink, ServerSentEventSource):
        with pytest.raises(ValueError, match="expected an address"):
            connector(url=url)


def test_wrong_settings() -> None:
    """The user's intention would be ignored silently."""
    url = "http://host/"
    for name, value in (("a b", "x"), ("a", "x\r\nb: y"), ("a", "ä")):
        with pytest.raises(ValueError, match="header"):
            HttpSink(url=url, headers={name: value})
    for call in (
        lambda: HttpSink(url=url, on_failure="ignore"),
        lambda: HttpSink(url=url, backoff_ms=5, backoff_max_ms=4),
        lambda: HttpSink(url=url, batch_size=0),
    ):
        with pytest.raises(ValueError, match="must be"):
            call()
    with pytest.raises(TypeError, match="dead_letters must be a sink"):
        HttpSink(url=url, dead_letters="letters")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="last_event_id must be one line"):
        ServerSentEventSource(url=url, last_event_id="a\nb")
    assert pickle.loads(pickle.dumps(HttpBody.JSON_LINES)) is HttpBody.JSON_LINES


def test_when_to_ask_again() -> None:
    """All subtasks would send requests to an overloaded server at the same time, again and again."""
    backoff = Backoff(100, 1000)
    assert [backoff.pause_ms(tries, None, 0) for tries in range(1, 6)] == [100, 200, 400, 800, 1000]
    assert backoff.pause_ms(3, None, 0.999) == 200
    assert backoff.pause_ms(1, 5000, 0.5) == 5000
    now = datetime.datetime(2026, 10, 21, 7, 28, tzinfo=datetime.UTC)
    assert retry_after_ms(" 120 ", now) == 120_000
    assert retry_after_ms("Wed, 21 Oct 2026 07:29:30 GMT", now) == 90_000
    assert retry_after_ms("Wed, 21 Oct 2026 07:00:00 GMT", now) == 0
    for far in ("9" * 30, "9" * 5000, "Wed, 21 Oct 2027 07:29:30 GMT"):
        assert retry_after_ms(far, now) == PAUSE_MAX_MS
    assert retry_after_ms("Wed, 21 Oct 2026 07:29:30 +99999999999999", now) is None
    assert retry_after_ms("soon", now) is None and retry_after_ms(None, now) is None
