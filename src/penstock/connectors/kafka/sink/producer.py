"""A producer of one subtask: messages go to the client's queue, what fails comes back at the next call."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from penstock.common.errors import JobError
from penstock.connectors.kafka.client import confluent_kafka, describe_error
from penstock.connectors.kafka.sink.serialization import KafkaProducerRecord

# A sink that waits for brokers, and says so: a job that stands still would not tell why.

_log = logging.getLogger(__name__)

LONG_WAIT_S = 5.0
_AGAIN_S = 30.0


class LongWait:
    """Begins when it is made. Used by the thread of the task, so that each line of the log has the operator's name."""

    def __init__(self, brokers: str | None, first_s: float) -> None:
        """`brokers`: as the user has named them. `first_s`: after how many seconds the log says so."""
        self._brokers = brokers
        self._first_s = first_s
        self._left: int | None = None
        self._tell_at_s = 0.0
        self._begin()

    def goes_on(self, messages: int, last_told: str | None) -> None:
        """Once a second or so. `messages` wait, `last_told` is what the client has said last; warn if it is for long.

        With fewer messages than before, brokers take them: the wait begins anew.
        """
        if self._left is not None and messages < self._left:
            self._begin()
        self._left = messages
        now_s = time.monotonic()
        if now_s < self._tell_at_s:
            return
        self._tell_at_s = now_s + _AGAIN_S
        _log.warning(
            "for %d s the Kafka brokers %s have taken nothing from this sink, and the job waits with it: %d messages "
            "are not written%s. It goes on when they answer; messages that wait for longer than message.timeout.ms "
            "fail the attempt. Whether they run, and whether a disk of theirs is full, is in the log of the brokers",
            now_s - self._since_s,
            self._brokers,
            messages,
            "" if last_told is None else f" ({last_told})",
        )

    def _begin(self) -> None:
        self._since_s = time.monotonic()
        self._tell_at_s = self._since_s + self._first_s


_WAIT_S = 0.1
_INIT_S = 60.0
_ADVICE = {
    ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"): "Create the topic, or check its name and the user's rights",
    ("_UNKNOWN_PARTITION",): "Check the partitioner, and whether the topic was deleted: it has no such partition",
    ("MSG_SIZE_TOO_LARGE",): (
        "Raise message.max.bytes of the sink, and if the broker refuses it, max.message.bytes of the topic"
    ),
    ("TOPIC_AUTHORIZATION_FAILED",): "Give the user the right to write to the topic",
    ("_MSG_TIMED_OUT",): "Brokers have not taken it within message.timeout.ms of the sink (300000)",
}
"""By the names of errors."""


class ProducerError(JobError):
    """A message could not be written."""


class KafkaProducer:
    """Raises ProducerError where a message was refused, at the latest from `flush`."""

    def __init__(self, settings: Mapping[str, Any], long_wait_s: float = LONG_WAIT_S) -> None:
        """`long_wait_s`: after how many seconds in which brokers take nothing the log says so."""
        self._kafka = confluent_kafka()
        self._brokers = settings.get("bootstrap.servers")
        self._long_wait_s = long_wait_s
        self._error: str | None = None
        self._last_told: str | None = None
        try:
            self._producer = self._kafka.Producer(
                dict(settings)
                | {
                    # Delivered messages are not reported: a call for each would cost more than the message.
                    "delivery.report.only.error": True,
                    "on_delivery": self._delivered,
                    "error_cb": self._told,
                }
            )
        except (self._kafka.KafkaException, ValueError) as error:
            raise ProducerError(f"the Kafka producer can't be made: {describe_error(error)}") from error

    def init_transactions(self) -> None:
        """Become the only producer of the transactional id. Waits for its coordinator."""
        self._call(self._producer.init_transactions, _INIT_S)

    def begin_transaction(self) -> None:
        """Begin a transaction for all records that follow."""
        self._call(self._producer.begin_transaction)

    def write(self, record: KafkaProducerRecord, timestamp: int | None) -> None:
        """Queue a message; waits while the queue is full."""
        options: dict[str, Any] = {}
        if record.partition is not None:
            options["partition"] = record.partition
        if record.headers:
            options["headers"] = record.headers
        wait: LongWait | None = None
        at_ms = timestamp if record.timestamp is None else record.timestamp
        if at_ms is not None and at_ms >= 0:
            options["timestamp"] = at_ms
        while True:
            try:
                self._producer.produce(record.topic, record.value, record.key, **options)
                return
            except BufferError:
                wait = wait or LongWait(self._brokers, self._long_wait_s)
                self._call(self._producer.poll, _WAIT_S)
                self.check()
                wait.goes_on(len(self._producer), self._last_told)
            except (self._kafka.KafkaException, TypeError, ValueError) as error:
                raise ProducerError(
                    f"a message for topic '{record.topic}' can't be written: {describe_error(error)}{_advice(error)}"
                ) from error

    def serve(self) -> None:
        """Take what the client reports, without waiting."""
        self._call(self._producer.poll, 0)
        self.check()

    def flush(self) -> None:
        """Wait until all messages are with the brokers, or refused."""
        wait = LongWait(self._brokers, self._long_wait_s)
        while left := self._call(self._producer.flush, 1.0):
            self.check()
            wait.goes_on(left, self._last_told)
        self.check()

    def check(self) -> None:
        """Raises ProducerError if a message was refused."""
        if self._error is not None:
            raise ProducerError(self._error)

    def abandon(self) -> None:
        """Drop what is queued. A transaction stays as it is with the brokers."""
        self._producer.purge()
        # Its `close` would abort the transaction; without a reference to it the client ends as well.
        del self._producer

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and self._error is None:
            self._error = f"a message was refused by topic '{message.topic()}': {describe_error(error)}{_advice(error)}"

    def _told(self, error: Any) -> None:
        self._last_told = describe_error(error)

    def _call(self, method: Any, *arguments: Any) -> Any:
        try:
            return method(*arguments)
        except (self._kafka.KafkaException, SystemError) as error:
            # What is fatal is raised where the client calls back. If it calls once more, the interpreter finds an
            # error that nobody has raised.
            raised = error.__cause__ if isinstance(error, SystemError) else error
            told = f". What the client has told: {self._last_told}" if self._last_told is not None else ""
            raise ProducerError(f"{method.__name__} has failed: {describe_error(raised or error)}{told}") from error


def _advice(error: Any) -> str:
    """What to do about a message that was refused; empty: its error says all that is known."""
    kafka_error = error.args[0] if isinstance(error, Exception) and error.args else error
    name = kafka_error.name() if hasattr(kafka_error, "name") else ""
    return next((f". {advice}" for names, advice in _ADVICE.items() if name in names), "")
