"""Hashes and encodings of text and bytes: MD5, SHA, Base64, charsets, URLs."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import zlib
from urllib.parse import quote_plus, unquote_plus

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.functions.columns import Column, per_distinct
from penstock.table.functions.errors import FunctionError
from penstock.table.functions.registry import Call, Family
from penstock.table.logical_types import BYTES, INT, INTEGER_NUMERIC, STRING

FAMILY = Family()
_TEXT = "<CHARACTER_STRING>"

for _name in ("MD5", "SHA1", "SHA224", "SHA256", "SHA384", "SHA512"):

    def _register(name: str) -> None:
        @FAMILY.values(name, _TEXT, result=STRING)
        def _(text: str) -> str:
            return hashlib.new(name.lower(), text.encode(), usedforsecurity=False).hexdigest()

    _register(_name)


@FAMILY.values("SHA2", f"{_TEXT}, <INTEGER>", result=STRING)
def sha2(text: str, bits: int) -> str:
    """Return the SHA-2 hash of 224, 256, 384 or 512 bits; 0 is 256."""
    if bits not in (0, 224, 256, 384, 512):
        raise FunctionError(f"SHA2: expected a length of 224, 256, 384 or 512 bits, got {bits}")
    return hashlib.new(f"sha{bits or 256}", text.encode(), usedforsecurity=False).hexdigest()


@FAMILY.values("TO_BASE64", _TEXT, result=STRING)
def to_base64(text: str) -> str:
    """Return the Base64 of text."""
    return base64.b64encode(text.encode()).decode()


@FAMILY.values("FROM_BASE64", _TEXT, result=STRING)
def from_base64(text: str) -> str:
    """Return the text of Base64."""
    try:
        return base64.b64decode(text, validate=True).decode(errors="replace")
    except (binascii.Error, ValueError) as error:
        raise FunctionError(f"FROM_BASE64: {text!r} is not Base64: {error}") from None


@FAMILY.values("ASCII", _TEXT, result=INT)
def ascii_code(text: str) -> int:
    """Return the first byte of text, signed as in Java; 0 for the empty text."""
    first = text.encode()[:1]
    return int.from_bytes(first, signed=True)


@FAMILY.values("CHR", "<INTEGER>", result=STRING)
def chr_(code: int) -> str:
    """Return the character of a code of ISO 8859-1; a larger one modulo 256, a negative one is the empty text."""
    return "" if code < 0 else chr(code & 0xFF)


_CHARSETS = {"utf-16": "utf-16-be"}


@FAMILY.values("ENCODE", f"{_TEXT}, {_TEXT}", result=BYTES)
def encode(text: str, charset: str) -> bytes:
    """Return the bytes of text in a charset."""
    try:
        bom = b"\xfe\xff" if charset.lower() == "utf-16" else b""
        return bom + text.encode(_CHARSETS.get(charset.lower(), charset), errors="replace")
    except LookupError:
        raise FunctionError(f"ENCODE: Unsupported encoding: {charset}") from None


@FAMILY.values("DECODE", f"<BINARY_STRING>, {_TEXT}", result=STRING)
def decode(data: bytes, charset: str) -> str:
    """Return the text of bytes in a charset."""
    try:
        return data.decode(charset, errors="replace")
    except LookupError:
        raise FunctionError(f"DECODE: Unsupported encoding: {charset}") from None


@FAMILY.values("URL_ENCODE", _TEXT, result=STRING, nullable=True)
def url_encode(text: str) -> str:
    """Escape text for a URL's query, as `java.net.URLEncoder`."""
    return quote_plus(text, safe="*").replace("~", "%7E")


@FAMILY.values("URL_DECODE", _TEXT, result=STRING, nullable=True)
def url_decode(text: str) -> str | None:
    """Return the text that was escaped for a URL, NULL if an escape is invalid."""
    if re.search(r"%(?![0-9A-Fa-f]{2})", text):
        return None
    return unquote_plus(text, errors="replace")


_URL = re.compile(
    r"(?:(?P<PROTOCOL>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<AUTHORITY>[^/?#]*))?(?P<PATH>[^?#]*)"
    r"(?:\?(?P<QUERY>[^#]*))?(?:#(?P<REF>.*))?",
    re.DOTALL,
)
_PROTOCOLS = ("http", "https", "ftp", "file", "jar", "mailto")
_PARTS = ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO")


@FAMILY.values("PARSE_URL", f"{_TEXT}, {_TEXT}", f"{_TEXT}, {_TEXT}, {_TEXT}", result=STRING, nullable=True)
def parse_url(url: str, part: str, key: str | None = None) -> str | None:
    """Return a part of a URL, or a parameter of its query: PARSE_URL(url, 'QUERY', key)."""
    match = _URL.fullmatch(url)
    if match is None or str(match["PROTOCOL"]).lower() not in _PROTOCOLS or part not in _PARTS:
        return None
    authority: str | None = match["AUTHORITY"]
    user, _, host = (authority or "").rpartition("@")
    query: str | None = match["QUERY"]
    if key is not None:
        found = re.search(rf"(?:^|&){re.escape(key)}=([^&]*)", query or "") if part == "QUERY" else None
        return found and found[1]
    found_part: str | None = {
        "HOST": re.sub(r":\d*$", "", host),
        "FILE": match["PATH"] + ("" if query is None else f"?{query}"),
        "USERINFO": user or None,
    }.get(part)
    return found_part if part in ("HOST", "FILE", "USERINFO") else match[part]


@FAMILY.kernel("HASH_CODE", signatures=["<ANY>"], result=INT, nullable=False)
def hash_code(call: Call) -> Column:
    """Return a number by which the planner spreads distinct values over buckets: the same for the same value.

    It is not the number that Flink computes; no result depends on it.
    """
    column, kind = call.columns[0], call.types[0]
    if kind.root in INTEGER_NUMERIC:
        wide = column.cast(pa.int64())
        folded = pc.bit_wise_and(pc.bit_wise_xor(wide, pc.shift_right(wide, 32)), 0x7FFFFFFF)
        return pc.coalesce(folded.cast(pa.int32()), pa.scalar(0, pa.int32()))
    return per_distinct(lambda value: zlib.crc32(repr(value).encode()) & 0x7FFFFFFF, [column], pa.int32(), nulls=True)
