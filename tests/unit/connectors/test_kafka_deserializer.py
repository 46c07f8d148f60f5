"""The values that a deserializer of Kafka messages may return."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy
import pytest

from penstock.connectors.kafka.source.deserialization import Deserializer, OnError


class Arrays:
    """Each message is an array, or nothing."""

    def deserialize_batch(self, messages: Any) -> list[Any]:
        return [None if message.number is None else numpy.full(3, message.number) for message in messages]


@pytest.mark.parametrize("numbers", [(1, 2), (1, None, 2), (None,)])
def test_values_are_not_compared(numbers: tuple[int | None, ...]) -> None:
    """Arrays have no single truth value: messages could not be read, whatever the policy for those that can't."""
    messages = [SimpleNamespace(number=number, timestamp=lambda: (1, 5)) for number in numbers]
    values, timestamps = Deserializer(Arrays(), OnError.FAIL, lambda: None).values_of(messages)  # type: ignore[arg-type]
    kept = [number for number in numbers if number is not None]
    assert [int(value[0]) for value in values] == kept and timestamps == [5] * len(kept)
