"""A producer of one subtask: messages go to the client's queue, errors are raised by the next call."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from operator import length_hint
from typing import Any

from penstock.common.errors import JobError
from penstock.connectors.kafka.client import confluent_kafka, describe_error
from penstock.connectors.kafka.sink.serialization import KafkaProducerBatch, KafkaProducerRecord

# A sink that waits for brokers logs it: otherwise a job that stands still would not show the reason.

_log = logging.getLogger(__name__)

LONG_WAIT_S = 5.0
_REPEAT_S = 30.0


class LongWait:
    """Measure a wait for brokers from construction, and log long ones.

    Only the thread of the task uses it, so that each line of the log has the operator's name.
    """

    def __init__(self, brokers: str | None, first_s: float) -> None:
        """`brokers`: as the user named them. `first_s`: after how many seconds the first warning is logged."""
        self._brokers = brokers
        self._first_s = first_s
        self._left: int | None = None
        self._warn_at_s = 0.0
        self._begin()

    def still_waiting(self, messages: int, last_error: str | None) -> None:
        """Call about once a second, with the number of waiting messages and the client's last error. Warn if it lasts.

        If there are fewer messages than before, brokers accept them: the wait starts again.
        """
        if self._left is not None and messages < self._left:
            self._begin()
        self._left = messages
        now_s = time.monotonic()
        if now_s < self._warn_at_s:
            return
        self._warn_at_s = now_s + _REPEAT_S
        _log.warning(
            "for %d s the Kafka brokers %s accepted no message from this sink, and the job waits: %d messages are "
            "not written%s. The job continues when they answer; messages that wait longer than message.timeout.ms "
            "fail the attempt. Check whether the brokers run, and in their logs whether a disk is full",
            now_s - self._since_s,
            self._brokers,
            messages,
            "" if last_error is None else f" ({last_error})",
        )

    def _begin(self) -> None:
        self._since_s = time.monotonic()
        self._warn_at_s = self._since_s + self._first_s


_WAIT_S = 0.1
_ANY_PARTITION = -1
_INIT_S = 60.0
_ADVICE = {
    ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"): "Create the topic, or check its name and the user's rights",
    ("_UNKNOWN_PARTITION",): "Check the partitioner, and whether the topic was deleted: it has no such partition",
    ("MSG_SIZE_TOO_LARGE",): (
        "Increase message.max.bytes of the sink, and if the broker refuses it, max.message.bytes of the topic"
    ),
    ("TOPIC_AUTHORIZATION_FAILED",): "Give the user the right to write to the topic",
    ("_MSG_TIMED_OUT",): "Brokers did not accept it within message.timeout.ms of the sink (default 300000)",
}
"""By the names of errors."""


class ProducerError(JobError):
    """A message could not be written."""


class KafkaProducer:
    """Write messages of one subtask. Raise ProducerError for a refused message, at the latest in `flush`."""

    def __init__(self, settings: Mapping[str, Any], long_wait_s: float = LONG_WAIT_S) -> None:
        """`long_wait_s`: after how many seconds without accepted messages a warning is logged."""
        self._kafka = confluent_kafka()
        self._brokers = settings.get("bootstrap.servers")
        self._long_wait_s = long_wait_s
        self._error: str | None = None
        self._last_error: str | None = None
        try:
            self._producer = self._kafka.Producer(
                dict(settings)
                | {
                    # Delivered messages are not reported: a call for each would cost more than the message.
                    "delivery.report.only.error": True,
                    "on_delivery": self._delivered,
                    "error_cb": self._on_client_error,
                }
            )
        except (self._kafka.KafkaException, ValueError) as error:
            raise ProducerError(f"cannot create the Kafka producer: {describe_error(error)}") from error

    def init_transactions(self) -> None:
        """Become the only producer of the transactional id. Waits for its coordinator."""
        self._call(self._producer.init_transactions, _INIT_S)

    def begin_transaction(self) -> None:
        """Begin a transaction for all records that follow."""
        self._call(self._producer.begin_transaction)

    def write(self, record: KafkaProducerRecord, timestamp: int | None) -> None:
        """Queue a message; wait while the queue is full."""
        options: dict[str, Any] = {}
        if record.partition is not None:
            options["partition"] = record.partition
        if record.headers:
            options["headers"] = record.headers
        at_ms = timestamp if record.timestamp is None else record.timestamp
        if at_ms is not None and at_ms >= 0:
            options["timestamp"] = at_ms
        wait: LongWait | None = None
        while True:
            try:
                self._producer.produce(record.topic, record.value, record.key, **options)
                return
            except BufferError:
                wait = self._wait_for_room(wait)
            except (self._kafka.KafkaException, TypeError, ValueError) as error:
                raise _not_written(record.topic, error) from error

    def write_batch(self, batch: KafkaProducerBatch, timestamps: Sequence[int] | None) -> None:
        """Queue messages in order, without Python code for each; wait while the queue is full.

        `timestamps`: in milliseconds; at most 0, or None: the time of writing.
        """
        count, queued = len(batch.values), 0
        timestamps = timestamps if batch.timestamps is None else batch.timestamps
        wait: LongWait | None = None
        while queued < count:
            left = iter(batch.values[queued:])
            # In the order of `produce`: no callbacks, which precede the timestamp.
            arguments: list[Iterable[Any]] = [
                repeat(batch.topic),
                left,
                repeat(None) if batch.keys is None else batch.keys[queued:],
                repeat(_ANY_PARTITION if batch.partition is None else batch.partition),
                repeat(None),
                repeat(None),
                repeat(0) if timestamps is None else timestamps[queued:],
            ]
            if batch.headers is not None:
                arguments.append(batch.headers[queued:])
            try:
                deque(map(self._producer.produce, *arguments), maxlen=0)
                return
            except BufferError:
                # The client has refused the last message that was taken.
                queued = count - length_hint(left) - 1
                wait = self._wait_for_room(wait)
            except (self._kafka.KafkaException, TypeError, ValueError) as error:
                raise _not_written(batch.topic, error) from error

    def _wait_for_room(self, wait: LongWait | None) -> LongWait:
        wait = wait or LongWait(self._brokers, self._long_wait_s)
        self._call(self._producer.poll, _WAIT_S)
        self.check()
        wait.still_waiting(len(self._producer), self._last_error)
        return wait

    def serve(self) -> None:
        """Handle the client's reports, without waiting."""
        self._call(self._producer.poll, 0)
        self.check()

    def flush(self) -> None:
        """Wait until all messages are stored by the brokers, or refused."""
        wait = LongWait(self._brokers, self._long_wait_s)
        while left := self._call(self._producer.flush, 1.0):
            self.check()
            wait.still_waiting(left, self._last_error)
        self.check()

    def check(self) -> None:
        """Raise ProducerError if a message was refused."""
        if self._error is not None:
            raise ProducerError(self._error)

    def abandon(self) -> None:
        """Drop queued messages. A transaction stays as it is at the brokers."""
        self._producer.purge()
        # Its `close` would abort the transaction; without a reference to it the client ends as well.
        del self._producer

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and self._error is None:
            self._error = f"topic '{message.topic()}' refused a message: {describe_error(error)}{_advice(error)}"

    def _on_client_error(self, error: Any) -> None:
        self._last_error = describe_error(error)

    def _call(self, method: Any, *arguments: Any) -> Any:
        try:
            return method(*arguments)
        except (self._kafka.KafkaException, SystemError) as error:
            # A fatal error is raised in the client's callback. If the client makes another call, the interpreter finds
            # an exception that is set without being raised, and raises SystemError.
            raised = error.__cause__ if isinstance(error, SystemError) else error
            report = f". The client reported: {self._last_error}" if self._last_error is not None else ""
            raise ProducerError(f"{method.__name__} failed: {describe_error(raised or error)}{report}") from error


def _not_written(topic: str, error: Exception) -> ProducerError:
    return ProducerError(f"cannot write a message to topic '{topic}': {describe_error(error)}{_advice(error)}")


def _advice(error: Any) -> str:
    """Return what to do about a refused message; empty if its error says all."""
    kafka_error = error.args[0] if isinstance(error, Exception) and error.args else error
    name = kafka_error.name() if hasattr(kafka_error, "name") else ""
    return next((f". {advice}" for names, advice in _ADVICE.items() if name in names), "")
