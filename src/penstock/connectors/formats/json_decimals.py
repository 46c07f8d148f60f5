"""Decode JSON to a user's type with decimals, and refuse texts that only Python accepts as numbers.

msgspec converts a text to a decimal by Python's rules, where `1_000` is one thousand, and has no hook for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
import msgspec.inspect

from penstock.common.values.decoding import json_decoder
from penstock.connectors.formats.conversion import is_python_only_number

_SUSPECT = re.compile(rb'"(?:[0-9a-fA-F.+\-\s]|\\.)*(?:_|\\u|[\x80-\xff])(?:[0-9a-fA-F_.+\-\s]|\\.|[\x80-\xff])*"')
"""A text with an underscore or a non-ASCII character, and otherwise only characters of such numbers."""
_NOT_A_NUMBER = "no number"


def decoder_of(type: Any) -> Callable[[bytes], Any]:
    """Return a decoder from JSON to values of the type. Raise TypeError for a type that msgspec does not support."""
    decode = json_decoder(type).decode
    if type is Any or not _has_decimals(type):
        return decode

    def decode_strictly(message: bytes) -> Any:
        value = decode(message)
        if _SUSPECT.search(message):
            plain = _DECODER.decode(message)
            if (altered := _without_python_only_numbers(plain)) is not plain:
                _check_altered(decode, altered)
        return value

    return decode_strictly


def _check_altered(decode: Callable[[bytes], Any], altered: Any) -> None:
    """Raise the error of a decimal that is not a number, with its place. A text field may have any text."""
    try:
        decode(_ENCODER.encode(altered))
    except msgspec.ValidationError as error:
        if "decimal" in str(error):
            raise


def _without_python_only_numbers(value: Any) -> Any:
    """Return a value in which such texts are replaced, or the same object if there are none."""
    if isinstance(value, str):
        return _NOT_A_NUMBER if is_python_only_number(value) else value
    if isinstance(value, list):
        items = [_without_python_only_numbers(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if isinstance(value, dict):
        pairs = [(_without_python_only_numbers(key), _without_python_only_numbers(one)) for key, one in value.items()]
        if any(key is not old or one is not value[old] for (key, one), old in zip(pairs, value, strict=True)):
            return dict(pairs)
    return value


def _has_decimals(type: Any) -> bool:
    """Return whether the type, or one of its parts, is a decimal."""
    seen: set[int] = set()

    def has_decimal(part: Any) -> bool:
        if isinstance(part, msgspec.inspect.DecimalType):
            return True
        if isinstance(part, (list, tuple)):
            return any(map(has_decimal, part))
        if not isinstance(part, (msgspec.inspect.Type, msgspec.inspect.Field)) or id(part) in seen:
            return False
        seen.add(id(part))
        return any(has_decimal(getattr(part, name)) for name in part.__struct_fields__)

    return has_decimal(msgspec.inspect.type_info(type))


# Numbers keep all their digits: some do not fit a float.
_DECODER = msgspec.json.Decoder(float_hook=Decimal)
_ENCODER = msgspec.json.Encoder(decimal_format="number")
