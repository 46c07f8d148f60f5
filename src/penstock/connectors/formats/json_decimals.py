"""JSON decoded to a type of the user's that has decimals: texts that are a number in Python only are refused.

msgspec makes a decimal of a text by Python's own rules, with which `1_000` is one thousand, and has no hook for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
import msgspec.inspect

from penstock.common.values.decoding import json_decoder
from penstock.connectors.formats.conversion import is_number_of_python

_SUSPECT = re.compile(rb'"(?:[0-9a-fA-F.+\-\s]|\\.)*(?:_|\\u|[\x80-\xff])(?:[0-9a-fA-F_.+\-\s]|\\.|[\x80-\xff])*"')
"""A text with an underscore, or a character beyond ASCII, and otherwise only what such numbers consist of."""
_NO_NUMBER = "no number"


def decoder_of(type: Any) -> Callable[[bytes], Any]:
    """From JSON to a value of the type. Raises TypeError for a type that msgspec does not support."""
    decode = json_decoder(type).decode
    if type is Any or not _has_decimals(type):
        return decode

    def decode_strictly(message: bytes) -> Any:
        value = decode(message)
        if _SUSPECT.search(message):
            plain = _DECODER.decode(message)
            if (altered := _without_numbers_of_python(plain)) is not plain:
                _check_altered(decode, altered)
        return value

    return decode_strictly


def _check_altered(decode: Callable[[bytes], Any], altered: Any) -> None:
    """Raise the error of a decimal that is not a number, with its place; a text field may have any text."""
    try:
        decode(_ENCODER.encode(altered))
    except msgspec.ValidationError as error:
        if "decimal" in str(error):
            raise


def _without_numbers_of_python(value: Any) -> Any:
    """The same object if there are none."""
    if isinstance(value, str):
        return _NO_NUMBER if is_number_of_python(value) else value
    if isinstance(value, list):
        items = [_without_numbers_of_python(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if isinstance(value, dict):
        pairs = [(_without_numbers_of_python(key), _without_numbers_of_python(one)) for key, one in value.items()]
        if any(key is not old or one is not value[old] for (key, one), old in zip(pairs, value, strict=True)):
            return dict(pairs)
    return value


def _has_decimals(type: Any) -> bool:
    """Whether the type, or one of its parts, is a decimal."""
    seen: set[int] = set()

    def look(part: Any) -> bool:
        if isinstance(part, msgspec.inspect.DecimalType):
            return True
        if isinstance(part, (list, tuple)):
            return any(map(look, part))
        if not isinstance(part, (msgspec.inspect.Type, msgspec.inspect.Field)) or id(part) in seen:
            return False
        seen.add(id(part))
        return any(look(getattr(part, name)) for name in part.__struct_fields__)

    return look(msgspec.inspect.type_info(type))


# Numbers keep all their digits: one may be too large for a float.
_DECODER = msgspec.json.Decoder(float_hook=Decimal)
_ENCODER = msgspec.json.Encoder(decimal_format="number")
