"""Bytes to values of declared types, by msgspec, from any thread.

msgspec keeps what it has found out of a type with the type, and it does so before it is complete. A second thread that
decodes to the same type meanwhile reads what is not there yet, and the process ends by a segmentation fault (msgspec
0.22). So it finds out of one type at a time here, and nowhere else; what is complete is read without a lock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

# A finalizer may decode, too, on the thread that holds it.
_one_at_a_time = threading.RLock()
# Another thread may hold it while a process is forked, and that thread is none of the child's.
os.register_at_fork(
    before=_one_at_a_time.acquire, after_in_parent=_one_at_a_time.release, after_in_child=_one_at_a_time.release
)
_json: dict[Any, msgspec.json.Decoder[Any]] = {}
_msgpack: dict[Any, msgspec.msgpack.Decoder[Any]] = {}


def json_decoder(type: type[T], float_hook: Callable[[str], Any] | None = None) -> msgspec.json.Decoder[T]:
    """A decoder of JSON, which threads may share. Raises TypeError for a type that msgspec does not support."""
    with _one_at_a_time:
        return msgspec.json.Decoder(type, float_hook=float_hook)


@overload
def msgpack_decoder(type: type[T], dec_hook: Callable[[Any, Any], Any] | None = None) -> msgspec.msgpack.Decoder[T]: ...


@overload
def msgpack_decoder(type: Any, dec_hook: Callable[[Any, Any], Any] | None = None) -> msgspec.msgpack.Decoder[Any]: ...


def msgpack_decoder(type: Any, dec_hook: Callable[[Any, Any], Any] | None = None) -> msgspec.msgpack.Decoder[Any]:
    """A decoder of MessagePack, which threads may share. Raises TypeError for a type that msgspec does not support."""
    with _one_at_a_time:
        return msgspec.msgpack.Decoder(type, dec_hook=dec_hook)


@overload
def from_json(data: bytes | str | memoryview, type: type[T]) -> T: ...


@overload
def from_json(data: bytes | str | memoryview, type: Any) -> Any: ...


def from_json(data: bytes | str | memoryview, type: Any) -> Any:
    """A value of one of penstock's own types. Raises UNREADABLE (penstock.common.errors.unreadable)."""
    decoder = _json.get(type)
    if decoder is None:
        decoder = _json[type] = json_decoder(type)
    return decoder.decode(data)


def from_msgpack(data: bytes | memoryview, type: type[T]) -> T:
    """A value of one of penstock's own types. Raises UNREADABLE (penstock.common.errors.unreadable)."""
    decoder = _msgpack.get(type)
    if decoder is None:
        decoder = _msgpack[type] = msgpack_decoder(type)
    value: T = decoder.decode(data)
    return value


def converted(value: object, type: type[T], strict: bool = True) -> T:
    """Dictionaries, lists and texts as a type that has them as its fields. Raises msgspec.ValidationError."""
    json_decoder(type)
    return msgspec.convert(value, type, strict=strict)
