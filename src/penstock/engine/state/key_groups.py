"""Key groups: the units in which keyed state is partitioned, snapshotted and moved when a job is rescaled.

A key hashes to one of `max_parallelism` groups and stays there for the life of the job; subtask i of p owns the
contiguous range `ceil(i*max/p) .. ceil((i+1)*max/p) - 1`. Source: Flink docs, "Working with State", Keyed State;
State Management paper, 3.3.
"""

from __future__ import annotations

import zlib
from typing import Any, TypeVar

from penstock.engine.state.keys import encode_key

Groups = TypeVar("Groups", int, Any)

MAX_PARALLELISM_BOUND = 1 << 15


def default_max_parallelism(parallelism: int) -> int:
    """Return Flink's default: 1.5 times the parallelism, rounded up to a power of two, within 128 to 32768."""
    scaled = parallelism + parallelism // 2
    return min(max(1 << (scaled - 1).bit_length(), 128), MAX_PARALLELISM_BOUND)


def key_group_of(key: Any, max_parallelism: int) -> int:
    """Return the key group of `key`. Raises KeyTypeError if it cannot be a key."""
    return key_group_of_encoded(encode_key(key), max_parallelism)


def key_group_of_encoded(encoded: bytes, max_parallelism: int) -> int:
    """Return the key group of a key, given its canonical bytes."""
    # CRC is linear in its input: the multiplication spreads its low bits before the range is cut to size.
    return ((zlib.crc32(encoded) * 0x9E3779B1 & 0xFFFFFFFF) * max_parallelism) >> 32


def subtask_of(key_group: Groups, max_parallelism: int, parallelism: int) -> Groups:
    """Return the index of the subtask, of `parallelism`, that owns `key_group`; also of an array of groups."""
    return key_group * parallelism // max_parallelism


def key_group_range(subtask: int, max_parallelism: int, parallelism: int) -> range:
    """Return the key groups that `subtask` owns."""
    first = -(-subtask * max_parallelism // parallelism)
    return range(first, -(-(subtask + 1) * max_parallelism // parallelism))


class KeyGroups(dict[Any, int]):
    """A cache of key -> key group. A dict, so the hot path pays one lookup. Cleared at `cached_keys_max` keys."""

    def __init__(self, max_parallelism: int, cached_keys_max: int = 1_000_000) -> None:
        super().__init__()
        self.max_parallelism = max_parallelism
        self._cached_keys_max = cached_keys_max

    def __missing__(self, key: Any) -> int:
        if len(self) >= self._cached_keys_max:
            self.clear()
        group = self[key] = key_group_of(key, self.max_parallelism)
        return group
