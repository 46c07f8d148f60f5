"""A sink that posts records to a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from penstock.api.sink import Committer, Sink, SinkContext
from penstock.connectors.base.execution import Execution
from penstock.connectors.base.former_builder import HasFormerBuilder
from penstock.connectors.base.options import checked_function
from penstock.connectors.http.endpoint import Backoff, checked_endpoint, checked_header
from penstock.connectors.http.sink.writer import (
    BatchesOfWriter,
    DeadLettersOfWriter,
    Delivery,
    HttpBody,
    HttpWriter,
    RequestSettings,
)

_ON_FAILURE = ("fail", "log")


class HttpSink(Sink[Any], HasFormerBuilder):
    """Send records to a server by POST, as JSON and in batches, at least once.

    A checkpoint waits until the server has answered. After a restart, records since the checkpoint are sent again; an
    identical batch has the same `Idempotency-Key`. Source: IETF, "The Idempotency-Key HTTP Header Field".
    """

    def __init__(
        self,
        *,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: HttpBody = HttpBody.JSON_ARRAY,
        payload: Callable[[Any], Any] | None = None,
        key_header: str | None = "Idempotency-Key",
        on_failure: str = "fail",
        dead_letters: Sink[Any] | None = None,
        batch_size: int = 100,
        batch_interval_ms: int = 0,
        max_retries: int = 5,
        backoff_ms: int = 500,
        backoff_max_ms: int = 30_000,
        timeout_ms: int = 30_000,
        ca_path: str | None = None,
    ) -> None:
        """Raise TypeError or ValueError for a wrong argument.

        * `url`: the address, `https://host/path`. A user and a password in it are sent by the scheme Basic.
        * `headers`: headers of each request, such as `Authorization`.
        * `body`: the form of a request.
        * `payload`: a function from a record to the value that is sent as JSON. Default: the record.
        * `key_header`: the header with the key of a batch, or None to send no key.
        * `on_failure`: what happens when the server does not accept a batch. `"fail"`: the job fails, and restarts by
          its strategy. `"log"`: the records are dropped and an error is logged.
        * `dead_letters`: a sink for the records of batches that the server does not accept: dicts of the record and the
          reason. The job continues.
        * `batch_size`: records of a request.
        * `batch_interval_ms`: how long a record waits for others. 0: until a batch is full, or for the next checkpoint.
        * `max_retries`: how often a request is sent again while the server is unavailable or overloaded.
        * `backoff_ms`, `backoff_max_ms`: the first and the longest pause between tries; it doubles from try to try.
        * `timeout_ms`: the longest wait for a connection, and for an answer.
        * `ca_path`: a file of trusted certificates (PEM). Default: those of the system.
        """
        if on_failure not in _ON_FAILURE:
            raise ValueError(f"on_failure must be one of {', '.join(_ON_FAILURE)}, got {on_failure!r}")
        if dead_letters is not None and not isinstance(dead_letters, Sink):
            raise TypeError(f"dead_letters must be a sink such as a FileSink, got {dead_letters!r}")
        form = HttpBody(body)
        execution = Execution.checked(batch_size, batch_interval_ms, max_retries)
        delivery = Delivery(
            endpoint=checked_endpoint(url, headers, timeout_ms, ca_path),
            content_type=form.content_type,
            backoff=Backoff.checked(backoff_ms, backoff_max_ms),
            max_retries=execution.max_retries,
            key_header=None if key_header is None else checked_header(key_header, "")[0],
        )
        self._settings = RequestSettings(
            delivery=delivery,
            body=form,
            execution=msgspec.structs.replace(execution, batch_size=1) if form is HttpBody.JSON_RECORD else execution,
            payload=None if payload is None else checked_function("payload", payload),
            fails=on_failure == "fail" and dead_letters is None,
        )
        self._dead_letters = dead_letters

    def describe(self) -> str:
        return f"at least once, POST {self._settings.delivery.endpoint}"

    def validate(self) -> None:
        """Validate the sink for dead letters. Send no request to the server: each may have an effect."""
        if self._dead_letters is not None:
            self._dead_letters.validate()

    def validate_without_checkpoints(self) -> None:
        """Validate the sink for dead letters."""
        if self._dead_letters is not None:
            self._dead_letters.validate_without_checkpoints()

    def create_writer(self, context: SinkContext) -> HttpWriter:
        """Create the writer of a subtask."""
        dead_letters = None if self._dead_letters is None else self._dead_letters.create_writer(context)
        return HttpWriter(self._settings, context, [], dead_letters)

    def restore_writer(self, context: SinkContext, state: list[Any]) -> HttpWriter:
        """Create a writer that continues the numbers of its batches, and the writer of dead letters."""
        batches = [item for item in state if isinstance(item, BatchesOfWriter)]
        dead = [item.state for item in state if isinstance(item, DeadLettersOfWriter)]
        dead_letters = None if self._dead_letters is None else self._dead_letters.restore_writer(context, dead)
        return HttpWriter(self._settings, context, batches, dead_letters)

    def create_committer(self) -> Committer | None:
        """Return the committer of the sink for dead letters."""
        return None if self._dead_letters is None else self._dead_letters.create_committer()
