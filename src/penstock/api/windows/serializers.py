"""Serializers of windows: big-endian 64-bit integers, so that equal windows have equal bytes."""

from __future__ import annotations

import struct
from typing import BinaryIO

from penstock.api.windows.window import CountWindow, GlobalWindow, TimeWindow
from penstock.common.serializer import TypeSerializer

_TIME = struct.Struct(">qq")
_COUNT = struct.Struct(">q")


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """Writes start and end: 16 bytes."""

    def serialize(self, element: TimeWindow, stream: BinaryIO) -> None:
        """Write `element` to `stream`."""
        stream.write(_TIME.pack(*element))

    def deserialize(self, stream: BinaryIO) -> TimeWindow:
        """Read a window that `serialize` has written."""
        return TimeWindow(*_TIME.unpack(stream.read(_TIME.size)))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """Writes the id: 8 bytes."""

    def serialize(self, element: CountWindow, stream: BinaryIO) -> None:
        """Write `element` to `stream`."""
        stream.write(_COUNT.pack(element.id))

    def deserialize(self, stream: BinaryIO) -> CountWindow:
        """Read a window that `serialize` has written."""
        return CountWindow(_COUNT.unpack(stream.read(_COUNT.size))[0])


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """Writes a single byte 0."""

    def serialize(self, element: GlobalWindow, stream: BinaryIO) -> None:
        """Write `element` to `stream`."""
        stream.write(b"\0")

    def deserialize(self, stream: BinaryIO) -> GlobalWindow:
        """Read a window that `serialize` has written."""
        stream.read(1)
        return GlobalWindow.get()
