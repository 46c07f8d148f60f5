"""IPv4 addresses as numbers, and back: INET_ATON and INET_NTOA, as MySQL has them."""

from __future__ import annotations

import re

from penstock.table.functions.registry import Family
from penstock.table.logical_types import BIGINT, STRING

FAMILY = Family()
_ADDRESS = re.compile(r"\d+(?:\.\d+){0,3}", re.ASCII)


@FAMILY.values("INET_ATON", "<CHARACTER_STRING>", result=BIGINT, nullable=True)
def inet_aton(text: str) -> int | None:
    """Return the number of an address such as 10.0.0.1. The last part of a short one is the last byte: 10.1."""
    if not _ADDRESS.fullmatch(text):
        return None
    *leading, last = (int(part) for part in text.split("."))
    if max([*leading, last]) > 255:
        return None
    number = 0
    for part in [*leading, *[0] * (3 - len(leading)), last]:
        number = number * 256 + part
    return number


@FAMILY.values("INET_NTOA", "<INTEGER_NUMERIC>", result=STRING, nullable=True)
def inet_ntoa(number: int) -> str | None:
    """Return the address of a number, NULL if it has more than 32 bits."""
    if not 0 <= number < 1 << 32:
        return None
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
