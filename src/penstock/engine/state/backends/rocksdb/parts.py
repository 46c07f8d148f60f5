"""What layers hold of a place of maps or lists, and how it is merged with what the store holds of it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from itertools import islice
from typing import Any

from penstock.engine.state.collections import ABSENT, GONE, MapChanges
from penstock.engine.state.keys import encode_key
from penstock.engine.state.tables import Layer

Parts = list[dict[Any, Any]]
"""By key, oldest first."""


def parts_above(layers: list[Layer], place: Any) -> Parts:
    """What layers, oldest first, hold of a place. Begins with a plain dict if what is below them does not count."""
    found: Parts = []
    for layer in reversed(layers):
        part = layer.get(place, ABSENT)
        if part is ABSENT:
            continue
        found.append({} if part is None else part)
        if type(part) is not MapChanges:
            break
    found.reverse()
    return found


def merged(stored: Iterator[tuple[bytes, bytes]], parts: Parts) -> Iterator[tuple[Any, Any]]:
    """Entries of a store, sorted by encoded key, and the parts above them, merged: key, value."""
    above: dict[bytes, tuple[Any, Any]] = {}
    for part in parts:
        for key, value in part.items():
            above[encode_key(key)] = key, value
    return _interleaved(stored, sorted(above.items()) if len(above) > 1 else list(above.items()))


def _interleaved(stored: Iterator[tuple[bytes, bytes]], above: list[Any]) -> Iterator[tuple[Any, Any]]:
    position = 0
    for encoded, data in stored:
        while position < len(above) and above[position][0] < encoded:
            if above[position][1][1] is not GONE:
                yield above[position][1]
            position += 1
        if position < len(above) and above[position][0] == encoded:
            continue
        yield pickle.loads(data)[1:]
    for _, entry in islice(above, position, None):
        if entry[1] is not GONE:
            yield entry
