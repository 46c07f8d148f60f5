"""Whole numbers as base-128 varints, seven bits a byte, the lowest first: Protobuf's form, and Kafka's protocol's."""

from __future__ import annotations


def encode_varint(value: int) -> bytes:
    """The bytes of a number that is not negative."""
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
