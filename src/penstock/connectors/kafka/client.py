"""The client library, confluent-kafka, and its settings."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from penstock.common.doors.extras import KAFKA, package_of

# What the client library logs, in moderation.

_AGAIN_S = 10.0
_TEXTS_MAX = 1000


class Seldom(logging.Filter):
    """Lets the same text through once in ten seconds: a client tells twenty times a second that a broker is away."""

    def __init__(self) -> None:
        super().__init__()
        self._told_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether `record` is to be logged. Texts that differ in "(after 3ms in state CONNECT)" are the same."""
        text = record.getMessage().partition(" (after ")[0]
        told_s = self._told_s.get(text)
        if told_s is not None and record.created - told_s < _AGAIN_S:
            return False
        if len(self._told_s) == _TEXTS_MAX:
            self._told_s.clear()
        self._told_s[text] = record.created
        return True


_log = logging.getLogger(__name__)
_log.addFilter(Seldom())

Properties = dict[str, str]


def confluent_kafka() -> ModuleType:
    """The package. Raises ConfigurationError if it is not installed."""
    return package_of(KAFKA, "the Kafka connector needs confluent-kafka", "confluent_kafka")


def checked_property(key: Any, value: Any) -> None:
    """Raises TypeError if a setting is not text. The value may be a password: it is not shown."""
    if not isinstance(key, str) or not isinstance(value, str):
        raise TypeError(
            f"a property of a Kafka client has a name and a value of type str, got {key!r} and {type(value).__name__}"
        )


def client_settings(properties: Mapping[str, str], **own: Any) -> dict[str, Any]:
    """Settings of a client of librdkafka: the user's, then penstock's `own`, whose names have `_` for dots."""
    settings: dict[str, Any] = dict(properties)
    settings.update((key.replace("_", "."), value) for key, value in own.items())
    settings["logger"] = _log
    return settings


def describe_error(error: Any) -> str:
    """Return the text of a KafkaException or KafkaError."""
    kafka_error = error.args[0] if isinstance(error, Exception) and error.args else error
    text = getattr(kafka_error, "str", None)
    return f"{text()} ({kafka_error.name()})" if text is not None else str(error)
