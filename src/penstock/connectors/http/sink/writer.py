"""Write the records of one subtask in requests."""

from __future__ import annotations

import datetime
import enum
import hashlib
import http.client
import logging
import random
import threading
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from penstock.api.sink import SinkContext, SinkWriter
from penstock.common.errors import JobError
from penstock.common.functions.user_calls import RAISED
from penstock.common.http import CONNECTION_ERRORS
from penstock.common.stored import stored_as
from penstock.common.time.earliest import earliest
from penstock.connectors.base.execution import Execution
from penstock.connectors.formats.json_values import JsonSerializationSchema
from penstock.connectors.http.endpoint import Backoff, Endpoint, HttpError, TransientHttpError, shut_down

# Keys of batches, by which a server recognizes a batch that it accepted before.
#
# A batch that is sent again after a restart keeps its key if it is the same batch of the same writer with the same
# records. The key is therefore computed from the writer, the number of the batch since the writer's start, and the
# body: a batch with other bounds has another key, and so have two batches with equal bodies.


@stored_as("http-batches-of-writer")
class BatchesOfWriter(msgspec.Struct, frozen=True, gc=False):
    """State of a writer: the name for its batches and their number, and its subtask and parallelism."""

    name: str
    count: int
    subtask: int
    parallelism: int


class BatchNumbers:
    """Compute the keys of one writer's batches. A writer restored as another subtask starts with a new name."""

    def __init__(self, context: SinkContext, restored: Sequence[BatchesOfWriter]) -> None:
        self._place = context.subtask, context.parallelism
        same_place = [one for one in restored if (one.subtask, one.parallelism) == self._place]
        if len(same_place) == len(restored) == 1:
            self._name, self._count = same_place[0].name, same_place[0].count
        else:
            self._count = 0
            # Without a state the writer may have started before: the same name yields the same keys again.
            initial_name = f"{context.job_id}/{context.operator_id}/{context.subtask}/{context.parallelism}"
            self._name = uuid.uuid4().hex if context.is_restored else initial_name

    def next_key(self, body: bytes) -> str:
        """Return the key of the next batch."""
        digest = hashlib.sha256(f"{self._name}/{self._count}/".encode() + body)
        self._count += 1
        return digest.hexdigest()[:32]

    def snapshot(self) -> BatchesOfWriter:
        """Return the state for a checkpoint."""
        return BatchesOfWriter(self._name, self._count, *self._place)


_JSON = JsonSerializationSchema()


class HttpBody(enum.Enum):
    """The form of a request's body."""

    JSON_ARRAY = "array"
    """All records of a batch, in an array."""
    JSON_LINES = "lines"
    """All records of a batch, one on each line."""
    JSON_RECORD = "record"
    """Each record in a request of its own."""

    @property
    def content_type(self) -> str:
        """Return the header of that name."""
        return "application/x-ndjson" if self is HttpBody.JSON_LINES else "application/json"

    def encode(self, records: Sequence[Any]) -> bytes:
        """Encode a batch. Raise TypeError for a value that JSON cannot represent."""
        if self is HttpBody.JSON_ARRAY:
            return _JSON.serialize(list(records))
        return b"\n".join(map(_JSON.serialize, records)) + b"\n" * (self is HttpBody.JSON_LINES)


_RETRY_AFTER_MAX_MS = 600_000
"""A longer pause would delay checkpoints too much: it is treated as a failure."""


class Delivery(msgspec.Struct, frozen=True):
    """How bodies are sent. `max_retries`: how often one is sent again; `key_header` None: send no key."""

    endpoint: Endpoint
    content_type: str
    backoff: Backoff = Backoff()
    max_retries: int = 5
    key_header: str | None = "Idempotency-Key"


class Courier:
    """Send bodies from one thread, over one connection, until the server accepts or finally refuses each.

    `pause` waits for so many seconds, and returns False if the sender closes.
    """

    def __init__(self, delivery: Delivery, pause: Callable[[float], bool]) -> None:
        self._delivery = delivery
        self._pause = pause
        self._connection: http.client.HTTPConnection | None = None
        self._is_interrupted = False

    def deliver(self, body: bytes, key: str) -> None:
        """Raise HttpError if the server refuses the body, or does not accept it after all tries."""
        delivery = self._delivery
        tries = 0
        while True:
            try:
                self._post(body, key)
                return
            except TransientHttpError as error:
                tries += 1
                if tries > delivery.max_retries:
                    raise HttpError(f"{error}. {tries} tries failed", error.status) from None
                if (error.retry_after_ms or 0) > _RETRY_AFTER_MAX_MS:
                    text = f"{error}. The server allows the next request only in {error.retry_after_ms} ms"
                    raise HttpError(text, error.status) from None
                pause_ms = delivery.backoff.pause_ms(tries, error.retry_after_ms, random.random())
                _log.warning("retrying in %d ms, retry %d: %s", pause_ms, tries, error)
                if not self._pause(pause_ms / 1000):
                    raise HttpError(f"{error}. The job ends before the next try", error.status) from None

    def interrupt(self) -> None:
        """Interrupt a wait in `deliver`, and end it. Called by another thread."""
        self._is_interrupted = True
        connection = self._connection
        if connection is not None:
            shut_down(connection.sock)

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _post(self, body: bytes, key: str) -> None:
        endpoint = self._delivery.endpoint
        headers = endpoint.all_headers(Content_Type=self._delivery.content_type)
        if self._delivery.key_header is not None:
            headers[self._delivery.key_header] = key
        is_used = self._connection is not None
        try:
            response, answer = self._exchange(body, headers)
        except CONNECTION_ERRORS as error:
            self.close()
            if not is_used or isinstance(error, TimeoutError) or self._is_interrupted:
                raise endpoint.unreachable(error) from None
            # The server may have ended an idle connection. By the key it detects a batch that it accepted before.
            try:
                response, answer = self._exchange(body, headers)
            except CONNECTION_ERRORS as again:
                self.close()
                raise endpoint.unreachable(again) from None
        if not 200 <= response.status < 300:
            raise endpoint.refused(response.status, response.headers, answer, datetime.datetime.now(datetime.UTC))

    def _exchange(self, body: bytes, headers: dict[str, str]) -> tuple[http.client.HTTPResponse, bytes]:
        if self._connection is None:
            self._connection = self._delivery.endpoint.connection()
        connection = self._connection
        connection.request("POST", self._delivery.endpoint.target, body, headers)
        response = connection.getresponse()
        answer = self._delivery.endpoint.body_of(response)
        if not response.isclosed():
            self.close()
        return response, answer


_CLOSE_S = 5.0


class Batch(msgspec.Struct, frozen=True):
    """Records, and their request."""

    records: list[Any]
    body: bytes
    key: str


class Refused(msgspec.Struct, frozen=True):
    """A batch that the server refused, and the reason."""

    batch: Batch
    error: HttpError


class BatchSender:
    """Send batches in order on a thread. `waiting_max`: if more wait, `put` blocks.

    `keeps_refused`: keep refused batches for `take_refused`; otherwise the first one ends the sender.
    """

    def __init__(self, delivery: Delivery, waiting_max: int, keeps_refused: bool) -> None:
        self._waiting_max = waiting_max
        self._keeps_refused = keeps_refused
        self._changed = threading.Condition()
        self._batches: deque[Batch] = deque()
        """The first batch is the one being sent."""
        self._refused: list[Refused] = []
        self._error: Exception | None = None
        self._closing = threading.Event()
        self._courier = Courier(delivery, lambda seconds: not self._closing.wait(seconds))
        self._thread = threading.Thread(target=self._run, name="penstock-http", daemon=True)
        self._thread.start()

    # Methods of the task.

    def put(self, batch: Batch) -> None:
        """Queue a batch. Raise the error that ended the sender."""
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or len(self._batches) <= self._waiting_max)
            self._raise()
            self._batches.append(batch)
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until the server has accepted or refused all batches. Raise the error that ended the sender."""
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or not self._batches)
            self._raise()

    def take_refused(self) -> list[Refused]:
        """Return the batches that were refused since the last call, in order."""
        with self._changed:
            refused, self._refused = self._refused, []
        return refused

    def close(self) -> None:
        """End the thread without sending further batches."""
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
        self._courier.interrupt()
        # The thread may wait for a connection: it is a daemon and ends after that wait.
        self._thread.join(_CLOSE_S)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    # Methods of the thread.

    def _run(self) -> None:
        try:
            while (batch := self._next()) is not None:
                self._send(batch)
        except RAISED as error:
            with self._changed:
                self._error = error if isinstance(error, JobError) else JobError(repr(error))
                self._changed.notify_all()
        finally:
            self._courier.close()

    def _next(self) -> Batch | None:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._batches) or self._closing.is_set())
            return None if self._closing.is_set() else self._batches[0]

    def _send(self, batch: Batch) -> None:
        refused: list[Refused] = []
        try:
            self._courier.deliver(batch.body, batch.key)
        except HttpError as error:
            if not self._keeps_refused or self._closing.is_set():
                raise
            refused.append(Refused(batch, error))
        with self._changed:
            self._refused += refused
            self._batches.popleft()
            self._changed.notify_all()


_log = logging.getLogger(__name__)
_WAITING_MAX = 2


@stored_as("http-dead-letters-of-writer")
class DeadLettersOfWriter(msgspec.Struct, frozen=True):
    """State of a writer: an item of the state of the sink for dead letters."""

    state: Any


class RequestSettings(msgspec.Struct, frozen=True):
    """The form of requests, and how they are sent."""

    delivery: Delivery
    body: HttpBody
    execution: Execution
    payload: Callable[[Any], Any] | None = None
    fails: bool = True
    """Whether the job fails for a refused batch. Otherwise its records become dead letters, or are logged."""


class HttpWriter(SinkWriter[Any]):
    """Divide records into batches, which a thread sends. A checkpoint waits until the server has all of them.

    `dead_letters`: the writer of another sink, for refused batches.
    """

    def __init__(
        self,
        settings: RequestSettings,
        context: SinkContext,
        restored: Sequence[BatchesOfWriter],
        dead_letters: SinkWriter[Any] | None,
    ) -> None:
        self._settings = settings
        self._context = context
        self._dead_letters = dead_letters
        self._numbers = BatchNumbers(context, restored)
        self._waiting: list[Any] = []
        self._due_ms: int | None = None
        self._sender = BatchSender(settings.delivery, _WAITING_MAX, keeps_refused=not settings.fails)

    def write(self, value: Any, timestamp: int | None) -> None:
        self.write_chunk([value], None)

    def write_chunk(self, values: list[Any], timestamps: list[int] | None) -> None:
        interval_ms = self._settings.execution.batch_interval_ms
        if not self._waiting and interval_ms:
            self._due_ms = self._context.now_ms() + interval_ms
        self._waiting += values
        self._send(self._settings.execution.batch_size)
        self._handle_refused()

    def wake_at_ms(self) -> int | None:
        return earliest(self._due_ms, self._dead_letters.wake_at_ms() if self._dead_letters else None)

    def on_wake(self, now_ms: int) -> None:
        if self._due_ms is not None and self._due_ms <= now_ms:
            self._send(1)
        self._handle_refused()
        if self._dead_letters is not None:
            at_ms = self._dead_letters.wake_at_ms()
            if at_ms is not None and at_ms <= now_ms:
                self._dead_letters.on_wake(now_ms)

    def flush(self, end_of_input: bool) -> None:
        self._send(1)
        self._sender.flush()
        self._handle_refused()
        if self._dead_letters is not None:
            self._dead_letters.flush(end_of_input)

    def prepare_savepoint(self) -> None:
        if self._dead_letters is not None:
            self._dead_letters.prepare_savepoint()

    def prepare_commit(self) -> list[Any]:
        return [] if self._dead_letters is None else self._dead_letters.prepare_commit()

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        state: list[Any] = [self._numbers.snapshot()]
        if self._dead_letters is not None:
            state += map(DeadLettersOfWriter, self._dead_letters.snapshot_state(checkpoint_id))
        return state

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if self._dead_letters is not None:
            self._dead_letters.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        if self._dead_letters is not None:
            self._dead_letters.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        try:
            self._sender.close()
        finally:
            if self._dead_letters is not None:
                self._dead_letters.close()

    def _send(self, least: int) -> None:
        """Send waiting records in batches, while there are at least `least` of them."""
        size, settings = self._settings.execution.batch_size, self._settings
        while len(self._waiting) >= least and self._waiting:
            records, self._waiting = self._waiting[:size], self._waiting[size:]
            payloads = records if settings.payload is None else list(map(settings.payload, records))
            body = settings.body.encode(payloads)
            self._sender.put(Batch(records, body, self._numbers.next_key(body)))
        if not self._waiting:
            self._due_ms = None

    def _handle_refused(self) -> None:
        """Write refused batches to the dead letters, or log them."""
        for refused in self._sender.take_refused():
            if self._dead_letters is None:
                _log.error("dropped %d records that the server refused: %s", len(refused.batch.records), refused.error)
            else:
                self._dead_letters.write_chunk(_dead_letters_of(refused), None)


def _dead_letters_of(refused: Refused) -> list[dict[str, Any]]:
    reason = {"status": refused.error.status, "reason": str(refused.error), "key": refused.batch.key}
    return [{"record": record, **reason} for record in refused.batch.records]
