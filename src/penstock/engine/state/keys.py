"""Encode keys as bytes: a canonical, typed encoding that is the same in every process, version and machine.

Two keys that compare equal in Python have equal bytes: `1`, `1.0` and `True` are one key, as in a dict. Keys may be
None, bool, int, float and Decimal (not NaN), str, bytes, date, datetime, time, timedelta, UUID, enum members, tuples,
Rows and frozen dataclasses of these, and objects of classes with a method `__penstock_key__` that returns such a key.
Lists and dicts are converted where keys are selected (container_keys.py). All other values are refused, since equal
values might have different bytes.

    tag  what            bytes after it
    N    None            -
    I    integral        sign and length, then magnitude (bool, int, float with an integral value, IntEnum)
    F    other float     8 bytes, IEEE 754 (a Decimal that equals a float: as the float; a `FloatKey` of tables, too)
    Q    other Decimal   sign, exponent, digits without zeros at the end
    S B  str, bytes      length, UTF-8 or raw
    D    date            proleptic ordinal
    T    naive datetime  microseconds since year 1         Z  aware datetime: the same in UTC
    C    time            microseconds (aware: in UTC)      G  timedelta: microseconds
    U    UUID            16 bytes
    E    enum member     class and member name (an enum that is also a number, str, bytes or tuple: as that)
    (    tuple           count, then each field            R  Row: what it is compared by, as a tuple
    K    frozen dataclass  class name, count, each field
    O    __penstock_key__  class name, the key that it returned
    L    list             count, then each item (as a `ListKey`, container_keys.py)
    M    dict             count, then each key and value, in the order of these bytes (as a `DictKey`)
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import functools
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from penstock.common.types import Row, row_identity
from penstock.common.values.exact_floats import FloatKey

_LENGTH = struct.Struct(">I")
_DOUBLE = struct.Struct(">d")
_EPOCH = dt.datetime(1, 1, 1)
_EPOCH_UTC = dt.datetime(1, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_DECIMAL_DIGITS_MAX = 10_000
"""A Decimal can have an exponent of 10**18: as an int, which it may equal, it would fill the memory."""


class KeyTypeError(TypeError):
    """A value cannot be a key: equal values might have different bytes."""


def encode_key(key: Any) -> bytes:
    """Return the canonical bytes of `key`. Raises KeyTypeError for a type that cannot be a key."""
    encode = _ENCODERS.get(type(key))
    return encode(key) if encode is not None else _encode_subclass(key)


def check_key(key: Any) -> None:
    """Raise KeyTypeError if `key` cannot be a key. Does not encode plain values, and tuples or dataclasses of these."""
    kind: Any = type(key)
    if kind in PLAIN:
        return
    parts = key if kind is tuple else [getattr(key, name) for name in _compared_fields(kind)]
    if not parts or not PLAIN.issuperset(map(type, parts)):
        encode_key(key)


@functools.cache
def _compared_fields(kind: type) -> tuple[str, ...]:
    """Return the names of the encoded fields of a frozen dataclass; empty for classes that are encoded otherwise."""
    if not dataclasses.is_dataclass(kind) or hasattr(kind, "__penstock_key__") or issubclass(kind, _ENCODED_AS_BASE):
        return ()
    if not kind.__dataclass_params__.frozen or not _is_generated(kind.__eq__):  # type: ignore[attr-defined]
        return ()
    return tuple(field.name for field in dataclasses.fields(kind) if field.compare)


def _sized(tag: bytes, data: bytes) -> bytes:
    return tag + _LENGTH.pack(len(data)) + data


def _encode_int(key: int) -> bytes:
    key = int(key)
    size = (abs(key).bit_length() + 7) // 8
    return (b"I+" if key >= 0 else b"I-") + _LENGTH.pack(size) + abs(key).to_bytes(size, "big")


def _nan_key() -> KeyTypeError:
    return KeyTypeError("NaN cannot be a key: it does not equal itself, so no record would ever find its state again")


def _encode_float(key: float) -> bytes:
    if key != key:
        raise _nan_key()
    return _encode_int(int(key)) if key.is_integer() else b"F" + _DOUBLE.pack(key)


def _encode_decimal(key: Decimal) -> bytes:
    if key.is_nan():
        raise _nan_key()
    if key.is_infinite():
        return _encode_float(float(key))
    if key.adjusted() > _DECIMAL_DIGITS_MAX:
        raise KeyTypeError(f"{key!r:.80} cannot be a key: it has more than {_DECIMAL_DIGITS_MAX:,} digits")
    if key == key.to_integral_value():
        return _encode_int(int(key))
    number = float(key)
    if Decimal(number) == key:
        return _encode_float(number)
    # `normalize` would round to the precision of the thread's context.
    sign, digits, exponent = key.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    kept = text.rstrip("0")
    assert isinstance(exponent, int)
    return (b"Q-" if sign else b"Q+") + _encode_int(exponent + len(text) - len(kept)) + _sized(b"", kept.encode())


def _encode_datetime(key: dt.datetime) -> bytes:
    # Within one time zone Python compares without the fold, and hashes without it.
    key = key.replace(fold=0)
    if key.utcoffset() is None:
        return b"T" + _encode_int((key.replace(tzinfo=None) - _EPOCH) // _MICROSECOND)
    # By its instant. Around clock changes, Python treats some equal instants as unequal.
    return b"Z" + _encode_int((key - _EPOCH_UTC) // _MICROSECOND)


def _encode_time(key: dt.time) -> bytes:
    micros = ((key.hour * 60 + key.minute) * 60 + key.second) * 1_000_000 + key.microsecond
    offset = key.utcoffset()
    return b"C-" + _encode_int(micros) if offset is None else b"CZ" + _encode_int(micros - offset // _MICROSECOND)


def _encode_fields(tag: bytes, fields: Any) -> bytes:
    encoded = [encode_key(field) for field in fields]
    return tag + _LENGTH.pack(len(encoded)) + b"".join(encoded)


def _encode_enum(key: enum.Enum) -> bytes:
    # Members of a Flag that have unnamed bits all have the name None.
    name = getattr(key, "name", None) or key.value
    return _sized(b"E", f"{type(key).__module__}.{type(key).__qualname__}.{name}".encode())


def _encode_subclass(key: Any) -> bytes:
    stored_map_key = getattr(type(key), "__penstock_key__", None)
    if stored_map_key is not None:
        kind: Any = type(key)
        if kind.__eq__ is object.__eq__ or kind.__hash__ is None:
            raise KeyTypeError(
                f"a {type(key).__name__} cannot be a key: it has __penstock_key__, but no matching __eq__ and "
                "__hash__, so its state in memory would not be found again. Compare by the result of __penstock_key__"
            )
        return _sized(b"O", _name_of(type(key))) + encode_key(stored_map_key(key))
    for kind in (bool, int, float, str, bytes, tuple):
        if isinstance(key, kind) and type(key).__eq__ is kind.__eq__:
            return _ENCODERS[kind](key)
    if isinstance(key, enum.Enum) and type(key).__eq__ is object.__eq__:
        return _encode_enum(key)
    if dataclasses.is_dataclass(key) and not isinstance(key, type):
        if not type(key).__dataclass_params__.frozen:  # type: ignore[attr-defined]
            raise KeyTypeError(
                f"a {type(key).__name__} cannot be a key: the dataclass is not frozen, so it could change after it was "
                "hashed. Declare it with @dataclass(frozen=True)"
            )
        if not type(key).__dataclass_params__.eq:  # type: ignore[attr-defined]
            raise KeyTypeError(
                f"a {type(key).__name__} cannot be a key: it is declared with eq=False, so no two are ever equal"
            )
        if not _is_generated(type(key).__eq__):
            raise KeyTypeError(
                f"a {type(key).__name__} cannot be a key: it has its own __eq__, so equal objects may have different "
                "fields. Add a method __penstock_key__(self) that returns the value by which objects are compared"
            )
        compared = (getattr(key, f.name) for f in dataclasses.fields(key) if f.compare)
        return _sized(b"K", _name_of(type(key))) + _encode_fields(b"(", compared)
    raise KeyTypeError(
        f"a {type(key).__name__} cannot be a key: {key!r:.80}{_instead_of(key)}. "
        "Keys are None, numbers, str, bytes, dates, UUIDs, "
        "enums, and tuples, Rows or frozen dataclasses of these, or have a method __penstock_key__(self) which returns "
        "such a key"
    )


def _instead_of(key: Any) -> str:
    """Return what a key selector can return in place of a value that cannot be a key; "" if that is not known."""
    if type(key).__module__ == "numpy" and getattr(key, "shape", None) == ():
        return "; return key.item() instead"
    return _IMMUTABLE.get(type(key), "")


def _name_of(kind: type) -> bytes:
    return f"{kind.__module__}.{kind.__qualname__}".encode()


def _is_generated(method: Any) -> bool:
    """Whether `dataclass` generated this method: it compiles generated code from a string."""
    return getattr(getattr(method, "__code__", None), "co_filename", None) == "<string>"


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda key: b"N",
    bool: _encode_int,
    int: _encode_int,
    float: _encode_float,
    FloatKey: lambda key: b"F" + _DOUBLE.pack(key),
    Decimal: _encode_decimal,
    str: lambda key: _sized(b"S", key.encode("utf-8", "surrogatepass")),
    bytes: lambda key: _sized(b"B", key),
    dt.date: lambda key: b"D" + _LENGTH.pack(key.toordinal()),
    dt.datetime: _encode_datetime,
    dt.time: _encode_time,
    dt.timedelta: lambda key: b"G" + _encode_int(key // _MICROSECOND),
    uuid.UUID: lambda key: b"U" + key.bytes,
    tuple: lambda key: _encode_fields(b"(", key),
    Row: lambda key: b"R" + encode_key(row_identity(key)),
}
PLAIN = frozenset(_ENCODERS.keys() - {float, Decimal, tuple, Row})
"""Types of which every value can be a key."""


def register_encoder(kind: type, encode: Callable[[Any], bytes]) -> None:
    """Encode instances of exactly this class with `encode`."""
    _ENCODERS[kind] = encode


def encoded_list(key: list[Any]) -> bytes:
    """Return the canonical bytes of a list. Raises KeyTypeError if an item cannot be a key."""
    return _encode_fields(b"L", key)


def encoded_dict(key: dict[Any, Any]) -> bytes:
    """Return the canonical bytes of a dict, with sorted entries. Raises KeyTypeError if a part cannot be a key."""
    entries = sorted(encode_key(name) + encode_key(value) for name, value in key.items())
    return b"M" + _LENGTH.pack(len(entries)) + b"".join(entries)


_IMMUTABLE: dict[Any, str] = {
    list: "; return tuple(key) instead",
    dict: "; return tuple(sorted(key.items())) instead",
    set: "; return tuple(sorted(key)) instead",
}
"""Immutable replacements that a key selector can return for mutable values."""
_ENCODED_AS_BASE = (bool, int, float, str, bytes, tuple, enum.Enum)
"""Classes whose subclasses are encoded like the class, also if they are dataclasses."""
