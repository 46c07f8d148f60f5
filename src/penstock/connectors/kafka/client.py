"""The client library confluent-kafka, its settings and its log."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from penstock.common.doors.extras import KAFKA, package_of

_REPEAT_S = 10.0
_TEXTS_MAX = 1000


class RepeatedTextFilter(logging.Filter):
    """Log the same text once in ten seconds: a client reports twenty times a second that a broker is unavailable."""

    def __init__(self) -> None:
        super().__init__()
        self._logged_at_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log `record`. Texts that differ only in "(after 3ms in state CONNECT)" count as equal."""
        text = record.getMessage().partition(" (after ")[0]
        logged_at_s = self._logged_at_s.get(text)
        if logged_at_s is not None and record.created - logged_at_s < _REPEAT_S:
            return False
        if len(self._logged_at_s) == _TEXTS_MAX:
            self._logged_at_s.clear()
        self._logged_at_s[text] = record.created
        return True


_log = logging.getLogger(__name__)
_log.addFilter(RepeatedTextFilter())

Properties = dict[str, str]


def confluent_kafka() -> ModuleType:
    """Return the package. Raise ConfigurationError if it is not installed."""
    return package_of(KAFKA, "the Kafka connector needs confluent-kafka", "confluent_kafka")


def checked_property(key: Any, value: Any) -> None:
    """Raise TypeError if a setting is not text. The value may be a password, so the message does not show it."""
    if not isinstance(key, str) or not isinstance(value, str):
        raise TypeError(
            f"the name and the value of a Kafka property must be str, got {key!r} and {type(value).__name__}"
        )


def client_settings(properties: Mapping[str, str], **overrides: Any) -> dict[str, Any]:
    """Return settings for librdkafka: the user's, then `overrides`, whose names have `_` for dots."""
    settings: dict[str, Any] = dict(properties)
    settings.update((key.replace("_", "."), value) for key, value in overrides.items())
    settings["logger"] = _log
    return settings


def describe_error(error: Any) -> str:
    """Return the text of a KafkaException or KafkaError."""
    kafka_error = error.args[0] if isinstance(error, Exception) and error.args else error
    text = getattr(kafka_error, "str", None)
    return f"{text()} ({kafka_error.name()})" if text is not None else str(error)
