"""Checks of settings: unknown keys, misspelled keys, values of the wrong type."""

from __future__ import annotations

import re
from collections.abc import Iterable

from penstock.common.configuration import Configuration
from penstock.common.configuration.options import ALL_OPTIONS
from penstock.common.errors import ConfigurationError

_OPTIONS_BY_KEY = {key: option for option in ALL_OPTIONS for key in (option.key, *option.fallback_keys)}

_TYPING_MISTAKES_MAX = 2
_SHORT_PART = 5
_NOT_SIMILAR = 1_000


def closest(key: str, among: Iterable[str] = _OPTIONS_BY_KEY) -> list[str]:
    """Return the known keys of which `key` may be a misspelling, nearest first.

    The edit distance is at most two, for the whole key or for each of its parts (for short parts: one). Case and `_` in
    place of `-` are ignored.
    """
    spelled = _spelled_plainly(key)
    distances = ((_distance(spelled, known), known) for known in among)
    return [known for distance, known in sorted(distances) if distance < _NOT_SIMILAR]


def check_keys(configuration: Configuration) -> list[str]:
    """Return the keys that are unknown, such as options of Flink that penstock does not have. They have no effect.

    Keys of Spark (`spark.…`) are accepted. Raises ConfigurationError for a key that is close to a known one and
    therefore probably misspelled.
    """
    unknown = []
    for key in sorted(configuration.key_set()):
        if key in _OPTIONS_BY_KEY or key.startswith("spark."):
            continue
        nearest = closest(key)
        if nearest:
            raise ConfigurationError(f"there is no option {key!r}. Did you mean {' or '.join(map(repr, nearest))}?")
        unknown.append(key)
    return unknown


def check_values(configuration: Configuration) -> None:
    """Parse all known options. Raises ConfigurationError for the first value that does not have its option's type."""
    for option in ALL_OPTIONS:
        configuration.get(option)


def _spelled_plainly(key: str) -> str:
    return key.strip().lower().replace("_", "-")


def _distance(left: str, right: str) -> int:
    if left != right and _without_min_or_max(left) == _without_min_or_max(right):
        # Flink has both keys: `min` and `max` are not misspellings of each other.
        return _NOT_SIMILAR
    whole = _typing_mistakes(left, right)
    if whole <= _TYPING_MISTAKES_MAX:
        return whole
    parts = left.split("."), right.split(".")
    if len(parts[0]) != len(parts[1]):
        return _NOT_SIMILAR
    mistakes = [_typing_mistakes(one, other) for one, other in zip(*parts, strict=True)]
    allowed = [_TYPING_MISTAKES_MAX if len(part) > _SHORT_PART else 1 for part in parts[1]]
    return sum(mistakes) if all(m <= a for m, a in zip(mistakes, allowed, strict=True)) else _NOT_SIMILAR


def _without_min_or_max(key: str) -> str:
    return re.sub(r"\b(min|max)\b", "limit", key)


def _typing_mistakes(left: str, right: str) -> int:
    """Return the Levenshtein distance, or more than the maximum if it exceeds the maximum."""
    if abs(len(left) - len(right)) > _TYPING_MISTAKES_MAX:
        return _TYPING_MISTAKES_MAX + 1
    row = list(range(len(right) + 1))
    for i, character in enumerate(left, 1):
        above_left, row[0] = row[0], i
        for j, other in enumerate(right, 1):
            above_left, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above_left + (character != other))
    return row[-1]
