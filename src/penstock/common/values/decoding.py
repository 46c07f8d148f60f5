"""Decoding of bytes to values of declared types with msgspec, safe for threads.

msgspec stores its description of a type with the type before the description is complete. If a second thread decodes
to the same type meanwhile, the process ends with a segmentation fault (msgspec 0.22). So all decoders are created here,
one at a time. Complete ones are used without a lock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

DECODING_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors of msgspec for invalid bytes: its own, and those for invalid UTF-8 and for too deep nesting."""

# Reentrant, because a finalizer may decode on the thread that holds the lock.
_one_at_a_time = threading.RLock()
# Otherwise a fork could copy the lock while another thread holds it, which the child does not have.
os.register_at_fork(
    before=_one_at_a_time.acquire, after_in_parent=_one_at_a_time.release, after_in_child=_one_at_a_time.release
)
_json: dict[Any, msgspec.json.Decoder[Any]] = {}
_msgpack: dict[Any, msgspec.msgpack.Decoder[Any]] = {}


def json_decoder(
    type: type[T],
    float_hook: Callable[[str], Any] | None = None,
    dec_hook: Callable[[Any, Any], Any] | None = None,
) -> msgspec.json.Decoder[T]:
    """Return a JSON decoder that threads may share. Raises TypeError for a type that msgspec does not support."""
    with _one_at_a_time:
        return msgspec.json.Decoder(type, float_hook=float_hook, dec_hook=dec_hook)


@overload
def msgpack_decoder(type: type[T], dec_hook: Callable[[Any, Any], Any] | None = None) -> msgspec.msgpack.Decoder[T]: ...


@overload
def msgpack_decoder(type: Any, dec_hook: Callable[[Any, Any], Any] | None = None) -> msgspec.msgpack.Decoder[Any]: ...


def msgpack_decoder(type: Any, dec_hook: Callable[[Any, Any], Any] | None = None) -> msgspec.msgpack.Decoder[Any]:
    """Return a MessagePack decoder that threads may share.

    Raises TypeError for a type that msgspec does not support.
    """
    with _one_at_a_time:
        return msgspec.msgpack.Decoder(type, dec_hook=dec_hook)


@overload
def from_json(data: bytes | str | memoryview, type: type[T]) -> T: ...


@overload
def from_json(data: bytes | str | memoryview, type: Any) -> Any: ...


def from_json(data: bytes | str | memoryview, type: Any) -> Any:
    """Decode a value of one of penstock's types. Raises DECODING_ERRORS."""
    decoder = _json.get(type)
    if decoder is None:
        decoder = _json[type] = json_decoder(type)
    return decoder.decode(data)


def from_msgpack(data: bytes | memoryview, type: type[T]) -> T:
    """Decode a value of one of penstock's types. Raises DECODING_ERRORS."""
    decoder = _msgpack.get(type)
    if decoder is None:
        decoder = _msgpack[type] = msgpack_decoder(type)
    value: T = decoder.decode(data)
    return value


def converted(value: object, type: type[T], strict: bool = True) -> T:
    """Convert dicts, lists and texts to a type with such fields. Raises msgspec.ValidationError."""
    json_decoder(type)
    return msgspec.convert(value, type, strict=strict)
