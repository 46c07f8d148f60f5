"""HttpSink and its builder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from penstock.api.sink import Committer, Sink, SinkContext
from penstock.common.functions.result_kinds import check_result_kind
from penstock.connectors.base.execution import Execution
from penstock.connectors.base.options import checked_at_least
from penstock.connectors.http.backoff import Backoff
from penstock.connectors.http.endpoint import Endpoint, checked_header, checked_url
from penstock.connectors.http.sink.batch_numbers import BatchesOfWriter
from penstock.connectors.http.sink.body import HttpBody
from penstock.connectors.http.sink.delivery import Delivery
from penstock.connectors.http.sink.writer import DeadLettersOfWriter, HttpWriter, RequestSettings

_ON_FAILURE = ("fail", "log")
_BATCH = 100


class HttpSink(Sink[Any]):
    """Sends records to a server by POST, as JSON and in batches, at least once. Made by `HttpSink.builder()`.

    A checkpoint waits until the server has answered. After a restart what came behind the checkpoint is sent again; a
    batch that is the same has the same `Idempotency-Key`. Source: IETF, "The Idempotency-Key HTTP Header Field".
    """

    def __init__(self, settings: RequestSettings, dead_letters: Sink[Any] | None) -> None:
        self._settings = settings
        self._dead_letters = dead_letters

    @staticmethod
    def builder() -> HttpSinkBuilder:
        """Start to build one."""
        return HttpSinkBuilder()

    def describe(self) -> str:
        return f"at least once, POST {self._settings.delivery.endpoint}"

    def validate(self) -> None:
        """Raises what the sink for dead letters raises. The server is not asked: each request may have an effect."""
        if self._dead_letters is not None:
            self._dead_letters.validate()

    def validate_without_checkpoints(self) -> None:
        """Raises what the sink for dead letters raises."""
        if self._dead_letters is not None:
            self._dead_letters.validate_without_checkpoints()

    def create_writer(self, context: SinkContext) -> HttpWriter:
        """Create the writer of a subtask."""
        dead_letters = None if self._dead_letters is None else self._dead_letters.create_writer(context)
        return HttpWriter(self._settings, context, [], dead_letters)

    def restore_writer(self, context: SinkContext, state: list[Any]) -> HttpWriter:
        """Create a writer that goes on with the names of its batches, and with the sink for dead letters."""
        batches = [item for item in state if isinstance(item, BatchesOfWriter)]
        dead = [item.state for item in state if isinstance(item, DeadLettersOfWriter)]
        dead_letters = None if self._dead_letters is None else self._dead_letters.restore_writer(context, dead)
        return HttpWriter(self._settings, context, batches, dead_letters)

    def create_committer(self) -> Committer | None:
        """That of the sink for dead letters."""
        return None if self._dead_letters is None else self._dead_letters.create_committer()


class HttpSinkBuilder:
    """Settings of an HttpSink. Each method returns the builder."""

    def __init__(self) -> None:
        self._url: str | None = None
        self._endpoint = Endpoint("")
        self._backoff = Backoff()
        self._max_retries = 5
        self._key_header: str | None = "Idempotency-Key"
        self._body = HttpBody.JSON_ARRAY
        self._execution = Execution(batch_size=_BATCH)
        self._payload: Callable[[Any], Any] | None = None
        self._on_failure = "fail"
        self._dead_letters: Sink[Any] | None = None

    def set_url(self, url: str) -> HttpSinkBuilder:
        """Set the address, `https://host/path`. A user and a password in it are sent as those of Basic."""
        self._url = checked_url(url)
        return self

    def set_header(self, name: str, value: str) -> HttpSinkBuilder:
        """Add a header to each request, such as `Authorization`. Raises ValueError for what can't be one."""
        headers = (*self._endpoint.headers, checked_header(name, value))
        self._endpoint = msgspec.structs.replace(self._endpoint, headers=headers)
        return self

    def set_ca_path(self, ca_path: str) -> HttpSinkBuilder:
        """Set a file of certificates (PEM) that are trusted. Default: those of the system."""
        self._endpoint = msgspec.structs.replace(self._endpoint, ca_path=ca_path)
        return self

    def set_timeout_ms(self, timeout_ms: int) -> HttpSinkBuilder:
        """Set how long a connection, and then an answer, is waited for. Default: 30 s."""
        timeout_ms = checked_at_least("timeout_ms", timeout_ms, 1)
        self._endpoint = msgspec.structs.replace(self._endpoint, timeout_ms=timeout_ms)
        return self

    def set_body(self, body: HttpBody) -> HttpSinkBuilder:
        """Set the form of a request. Default: `HttpBody.JSON_ARRAY`."""
        self._body = HttpBody(body)
        return self

    def set_payload(self, payload: Callable[[Any], Any]) -> HttpSinkBuilder:
        """Set a function of a record that makes what JSON has of it. Default: the record."""
        if not callable(payload):
            raise TypeError(f"set_payload takes a function of a record, got {payload!r}")
        check_result_kind(payload, "the payload function")
        self._payload = payload
        return self

    def set_batch_size(self, batch_size: int) -> HttpSinkBuilder:
        """Set how many records a request has. Default: 100."""
        self._execution = self._execution.with_batch_size(batch_size)
        return self

    def set_batch_interval_ms(self, batch_interval_ms: int) -> HttpSinkBuilder:
        """Set how long a record waits for others. Default: 0, until a batch is full, or a checkpoint comes."""
        self._execution = self._execution.with_batch_interval_ms(batch_interval_ms)
        return self

    def set_max_retries(self, max_retries: int) -> HttpSinkBuilder:
        """Set how often a request is sent again while the server is away or overloaded. Default: 5."""
        self._max_retries = checked_at_least("max_retries", max_retries, 0)
        return self

    def set_backoff_ms(self, first_ms: int, most_ms: int) -> HttpSinkBuilder:
        """Set the pause before the second try, and the longest; it doubles from try to try. Default: 500, 30,000."""
        first_ms = checked_at_least("first_ms", first_ms, 1)
        self._backoff = Backoff(first_ms, checked_at_least("most_ms", most_ms, first_ms))
        return self

    def set_key_header(self, name: str | None) -> HttpSinkBuilder:
        """Set the header with the name of a batch; None: there is none. Default: `Idempotency-Key`."""
        self._key_header = None if name is None else checked_header(name, "")[0]
        return self

    def set_on_failure(self, on_failure: str) -> HttpSinkBuilder:
        """Set what happens when the server does not take a batch: `"fail"`, which is the default, or `"log"`.

        "fail": the job fails, and restarts as its strategy says. "log": the records are lost, and the log says so.
        """
        if on_failure not in _ON_FAILURE:
            raise ValueError(f"on_failure must be one of {', '.join(_ON_FAILURE)}, got {on_failure!r}")
        self._on_failure = on_failure
        return self

    def set_dead_letters(self, sink: Sink[Any]) -> HttpSinkBuilder:
        """Set a sink for the records of batches that the server does not take: dicts, the record with the reason."""
        if not isinstance(sink, Sink):
            raise TypeError(f"set_dead_letters takes a sink such as a FileSink, got {sink!r}")
        self._dead_letters = sink
        return self

    def build(self) -> HttpSink:
        """Create the sink. Raises ValueError if something necessary is missing."""
        if self._url is None:
            raise ValueError("an HttpSink needs an address: set_url('https://host/path')")
        endpoint = msgspec.structs.replace(self._endpoint, url=self._url)
        delivery = Delivery(endpoint, self._body.content_type, self._backoff, self._max_retries, self._key_header)
        one_by_one = self._body is HttpBody.JSON_RECORD
        execution = self._execution.with_batch_size(1) if one_by_one else self._execution
        fails = self._on_failure == "fail" and self._dead_letters is None
        settings = RequestSettings(delivery, self._body, execution, self._payload, fails)
        return HttpSink(settings, self._dead_letters)
