"""Records posted to a server that fails in all ways that servers do."""

from __future__ import annotations

import json
import logging
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.connectors.driven import prepared, until
from tests.connectors.http_service import HttpService, cut, dripping, slow, status

from penstock.common import Encoder, Row
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink
from penstock.datastream.connectors.http import HttpBody, HttpError, HttpSink
from penstock.testing.conformance.sink import SimpleSinkContext

pytestmark = pytest.mark.connectors


def sink_to(service: HttpService, **settings: Any) -> HttpSink:
    common = {"url": f"{service.url}/hooks?of=me", "batch_size": 3, "backoff_ms": 1, "backoff_max_ms": 2}
    return HttpSink(**{**common, **settings})


def writer_of(sink: HttpSink, context: SimpleSinkContext | None = None, state: list[Any] | None = None) -> Any:
    sink = pickle.loads(pickle.dumps(sink))
    context = context or SimpleSinkContext()
    return sink.create_writer(context) if state is None else sink.restore_writer(context, state)


def as_object(number: int) -> dict[str, int]:
    return {"a": number}


def test_batches_in_their_order() -> None:
    """The server would get records twice, in another order, or after the checkpoint that says that it has them."""
    with HttpService() as service:
        writer = writer_of(sink_to(service, headers={"X-Of": "me"}))
        for start in range(0, 10, 2):
            writer.write_chunk([Row(id=start), {"id": start + 1}], None)
        prepared(writer)
        assert [json.loads(asked.body) for asked in service.asked] == [
            [{"id": id} for id in ids] for ids in ([0, 1, 2], [3, 4, 5], [6, 7, 8], [9])
        ]
        assert service.connections == 1
        assert len({asked.key for asked in service.asked}) == 4
        first = service.asked[0].headers
        assert (first["Content-Type"], first["X-Of"]) == ("application/json", "me")
        writer.close()


@pytest.mark.parametrize(
    ("body", "bodies"),
    [
        (HttpBody.JSON_LINES, [b'{"a":1}\n{"a":2}\n{"a":3}\n', b'{"a":4}\n']),
        (HttpBody.JSON_RECORD, [b'{"a":1}', b'{"a":2}', b'{"a":3}', b'{"a":4}']),
    ],
)
def test_other_bodies(body: HttpBody, bodies: list[bytes]) -> None:
    """Servers that take one object, or lines, would refuse each request."""
    with HttpService() as service:
        writer = writer_of(sink_to(service, body=body, payload=as_object))
        writer.write_chunk([1, 2, 3, 4], None)
        writer.flush(True)
        assert [asked.body for asked in service.asked] == bodies
        assert service.asked[0].headers["Content-Type"] == body.content_type
        writer.close()


@pytest.mark.parametrize(
    "fault",
    [status(500), status(503), status(429, Retry_After="0"), cut, slow(0.5)],
    ids=["500", "503", "429", "cut", "slow"],
)
def test_a_server_in_trouble(fault: Any) -> None:
    """A server that restarts, or is overloaded for a moment, would cost the job its attempt, or the server records."""
    with HttpService(fault, fault) as service:
        writer = writer_of(sink_to(service, timeout_ms=200))
        writer.write_chunk([1, 2, 3], None)
        writer.flush(False)
        writer.write_chunk([4], None)
        writer.flush(False)
        *tries, last = service.asked
        assert len(tries) >= 3 and {asked.body for asked in tries} == {b"[1,2,3]"}
        assert len({asked.key for asked in tries}) == 1, "the server can know that it has taken it"
        assert last.body == b"[4]"
        writer.close()


def test_it_waits_as_long_as_the_server_wants() -> None:
    """A server that requests a pause would get even more requests, and block the job."""
    with HttpService(status(429, Retry_After="1")) as service:
        writer = writer_of(sink_to(service))
        writer.write_chunk([1, 2, 3], None)
        writer.flush(False)
        first, second = service.asked
        assert second.at_s - first.at_s >= 1
        writer.close()
    with HttpService(usual=status(503, Retry_After="3600")) as service:
        writer = writer_of(sink_to(service))
        writer.write_chunk([1, 2, 3], None)
        with pytest.raises(HttpError, match="allows the next request only in 3600000 ms"):
            writer.flush(False)
        writer.close()


@pytest.mark.parametrize(
    ("answer", "requests", "said"),
    [
        (status(500), 3, "answered 500: so. 3 tries failed"),
        (status(400), 1, "answered 400: so"),
        (status(401), 1, "Check the credentials"),
        (
            status(301, Location="https://a:b@elsewhere/x?code=secret"),
            1,
            "It redirects to https://elsewhere/x: set url",
        ),
        (status(301), 1, "It redirects to an unnamed place"),
        (status(301, Location="/x?code=secret"), 1, "It redirects to /x: set url"),
        (status(301, Location="http://["), 1, "It redirects to an invalid address"),
    ],
)
def test_what_the_server_does_not_take_fails_the_job(answer: Any, requests: int, said: str) -> None:
    """The job would continue, and its next checkpoint claim that the server has the refused records."""
    with HttpService(usual=answer) as service:
        writer = writer_of(sink_to(service, max_retries=2))
        writer.write_chunk([1, 2, 3], None)
        with pytest.raises(HttpError, match=said) as raised:
            writer.flush(False)
        assert f"{service.url}/hooks answered" in str(raised.value) and "of=me" not in str(raised.value)
        assert len(service.asked) == requests
        with pytest.raises(HttpError, match=said):
            writer.write_chunk([4, 5, 6], None)
        writer.close()


def test_a_server_that_is_away() -> None:
    """The message would be of sockets, and not of the address that is wrong."""
    with HttpService() as service:
        pass
    writer = writer_of(sink_to(service, max_retries=1))
    writer.write_chunk([1, 2, 3], None)
    with pytest.raises(HttpError, match=r"/hooks cannot be reached: ConnectionRefusedError.*2 tries failed"):
        writer.flush(False)
    writer.close()


def test_dead_letters(tmp_path: Path) -> None:
    """Refused records would be lost, stop the job forever, or be duplicated after a failure."""
    files = FileSink.for_row_format(tmp_path, Encoder.json_encoder())
    files = files.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    with HttpService(status(200), status(400), status(200)) as service:
        sink = sink_to(service, dead_letters=files.build())
        writer = writer_of(sink)
        writer.write_chunk([*range(8)], None)
        committables, state = prepared(writer)
        writer.close()
        # The file stays open across the checkpoint.
        assert committables == []
        restored = writer_of(sink, SimpleSinkContext(attempt="2", is_restored=True), state)
        restored.write_chunk([8, 9], None)
        restored.flush(True)
        committer = sink.create_committer()
        assert committer is not None
        committer.commit(restored.prepare_commit())
        restored.close()
        assert len(service.asked) == 4
    (path,) = tmp_path.glob("part-*")
    letters = [json.loads(line) for line in path.read_text().splitlines()]
    assert [letter["record"] for letter in letters] == [3, 4, 5]
    assert {(letter["status"], letter["key"]) for letter in letters} == {(400, service.asked[1].key)}
    assert letters[0]["reason"].endswith("answered 400: so")


def test_records_that_are_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A user who prefers to lose a record would have to stop the job, or would not learn of the loss."""
    with HttpService(status(400)) as service, caplog.at_level(logging.ERROR):
        writer = writer_of(sink_to(service, on_failure="log"))
        writer.write_chunk([1, 2, 3, 4], None)
        writer.flush(False)
        assert service.records == [1, 2, 3, 4]
        writer.close()
    assert "dropped 3 records that the server refused" in caplog.text and "400" in caplog.text


def test_a_batch_that_is_sent_again_after_a_restart_has_its_name() -> None:
    """The server would take it for another one; or two that are equal by chance for one."""
    with HttpService() as service:
        writer = writer_of(sink_to(service))
        writer.write_chunk([1, 1, 1], None)
        _, state = prepared(writer)
        writer.write_chunk([1, 1, 1], None)
        writer.flush(False)
        writer.close()
        for context in (SimpleSinkContext(is_restored=True), SimpleSinkContext(parallelism=2, is_restored=True)):
            again = writer_of(sink_to(service), context, state)
            again.write_chunk([1, 1, 1], None)
            again.flush(False)
            again.close()
        first, second, repeated, rescaled = [asked.key for asked in service.asked]
        assert second == repeated
        assert len({first, second, rescaled}) == 3


def test_the_task_goes_on_while_the_server_is_slow() -> None:
    """A slow server would stop the task with each request, and thereby timers and checkpoints of other operators."""
    answered = threading.Event()

    def later(handler: Any) -> None:
        answered.wait(60)
        status(200)(handler)

    with HttpService(later) as service:
        writer = writer_of(sink_to(service))
        writer.write_chunk([1, 2, 3, 4, 5, 6], None)
        assert not answered.is_set(), "the call came back before the answer"
        answered.set()
        writer.flush(False)
        assert service.records == [1, 2, 3, 4, 5, 6]
        writer.close()


@pytest.mark.parametrize("answer", [slow(60), status(503, Retry_After="500")], ids=["hangs", "wants a pause"])
def test_a_writer_closes_though_its_server_does_not_answer(answer: Any) -> None:
    """While a server is away, a job could be canceled only by killing its workers."""
    with HttpService(usual=answer) as service:
        writer = writer_of(sink_to(service))
        writer.write_chunk([1, 2, 3], None)
        until(lambda: bool(service.asked))
        writer.close()
        assert not [thread for thread in threading.enumerate() if thread.name == "penstock-http"]


def test_a_writer_closes_though_its_connection_has_served_before() -> None:
    """A canceled job would send its last batch again, and wait for an answer that does not come."""
    with HttpService(status(200), usual=slow(60)) as service:
        writer = writer_of(sink_to(service))
        writer.write_chunk([1, 2, 3], None)
        writer.flush(False)
        writer.write_chunk([4, 5, 6], None)
        until(lambda: len(service.asked) == 2)
        writer.close()
        assert not [thread for thread in threading.enumerate() if thread.name == "penstock-http"]
        assert len(service.asked) == 2


def test_an_answer_that_does_not_end() -> None:
    """A slow proxy would block all checkpoints, although its server has the records."""
    with HttpService(dripping, status(200)) as service:
        writer = writer_of(sink_to(service, timeout_ms=2_000))
        writer.write_chunk([1, 2, 3, 4], None)
        writer.flush(False)
        assert service.records == [1, 2, 3, 4]
        writer.close()


def test_the_interval() -> None:
    """The last records of a burst would wait for the next burst."""
    with HttpService() as service:
        context = SimpleSinkContext(clock_ms=1000)
        writer = writer_of(sink_to(service, batch_interval_ms=50), context)
        assert writer.wake_at_ms() is None
        writer.write_chunk([1], None)
        assert writer.wake_at_ms() == 1050
        writer.on_wake(1050)
        assert writer.wake_at_ms() is None
        writer.flush(False)
        assert service.records == [1]
        writer.close()
