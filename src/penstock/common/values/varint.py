"""Base-128 varints of Protobuf and Kafka's protocol: seven bits per byte, lowest first."""

from __future__ import annotations


def encode_varint(value: int) -> bytes:
    """Encode a number of 0 or more."""
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
