"""The partition of a transactional id in the topic of transactions. Its leader is the id's coordinator."""

from __future__ import annotations

import itertools
import struct

_SIGN = 1 << 31


def hash_code(text: str) -> int:
    """Return Java's `String.hashCode` without its sign: 32 bits."""
    code = 0
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        code = (code * 31 + unit) & 0xFFFFFFFF
    return code


def partition_of(transactional_id: str, partitions: int) -> int:
    """Return the partition of an id. Source: Kafka, TransactionStateManager.partitionFor."""
    code = hash_code(transactional_id)
    magnitude = code if code < _SIGN else (1 << 32) - code
    return (0 if magnitude == _SIGN else magnitude) % partitions


def id_of_each_partition(partitions: int, prefix: str) -> list[str]:
    """Return an unused id for each partition, by the numbers of partitions. All ids begin with `prefix`."""
    found: dict[int, str] = {}
    for number in itertools.count():
        name = f"{prefix}?{number}"
        found.setdefault(partition_of(name, partitions), name)
        if len(found) == partitions:
            return [found[partition] for partition in range(partitions)]
    raise AssertionError("there are numbers without end")
