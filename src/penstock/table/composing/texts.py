"""Methods of expressions whose values are texts or bytes."""

from __future__ import annotations

from typing import Any, Self

from penstock.table.composing.making import Making


class TextMethods(Making):
    """Methods of expressions whose values are texts or bytes."""

    @property
    def char_length(self) -> Self:
        """Return the number of characters."""
        return self._made("CHAR_LENGTH({})")

    @property
    def upper_case(self) -> Self:
        """Return the text in upper case."""
        return self._made("UPPER({})")

    @property
    def lower_case(self) -> Self:
        """Return the text in lower case."""
        return self._made("LOWER({})")

    @property
    def init_cap(self) -> Self:
        """Return the text with each word's first letter in upper case."""
        return self._made("INITCAP({})")

    @property
    def hex(self) -> Self:
        """Return the hexadecimal digits of a number or a text."""
        return self._made("HEX({})")

    @property
    def unhex(self) -> Self:
        """Return the bytes of hexadecimal digits."""
        return self._made("UNHEX({})")

    @property
    def from_base64(self) -> Self:
        """Decode base 64."""
        return self._made("FROM_BASE64({})")

    @property
    def to_base64(self) -> Self:
        """Encode as base 64."""
        return self._made("TO_BASE64({})")

    @property
    def ascii(self) -> Self:
        """Return the code of the first character."""
        return self._made("ASCII({})")

    @property
    def chr(self) -> Self:
        """Return the character of a code."""
        return self._made("CHR({})")

    @property
    def reverse(self) -> Self:
        """Return the text from its end to its start."""
        return self._made("REVERSE({})")

    @property
    def md5(self) -> Self:
        """Return the MD5 hash in hexadecimal digits."""
        return self._made("MD5({})")

    @property
    def sha1(self) -> Self:
        """Return the SHA1 hash in hexadecimal digits."""
        return self._made("SHA1({})")

    @property
    def sha224(self) -> Self:
        """Return the SHA224 hash in hexadecimal digits."""
        return self._made("SHA224({})")

    @property
    def sha256(self) -> Self:
        """Return the SHA256 hash in hexadecimal digits."""
        return self._made("SHA256({})")

    @property
    def sha384(self) -> Self:
        """Return the SHA384 hash in hexadecimal digits."""
        return self._made("SHA384({})")

    @property
    def sha512(self) -> Self:
        """Return the SHA512 hash in hexadecimal digits."""
        return self._made("SHA512({})")

    def sha2(self, hash_length: Any) -> Self:
        """Return the SHA-2 hash of so many bits in hexadecimal digits."""
        return self._called("SHA2", hash_length)

    def concat(self, other: Any) -> Self:
        """Return this text, followed by another."""
        return self._called("CONCAT", other)

    def starts_with(self, start_expr: Any) -> Self:
        """Return whether it starts with a text."""
        return self._called("STARTSWITH", start_expr)

    def ends_with(self, end_expr: Any) -> Self:
        """Return whether it ends with a text."""
        return self._called("ENDSWITH", end_expr)

    def substring(self, begin_index: Any, length: Any = None) -> Self:
        """Return the part from a position on, the first is 1, of at most `length` characters."""
        return self._called("SUBSTRING", begin_index, length)

    def substr(self, begin_index: Any, length: Any = None) -> Self:
        """Return the part from a position on: `substring`."""
        return self._called("SUBSTR", begin_index, length)

    def replace(self, search: Any, replacement: Any) -> Self:
        """Replace all occurrences of a text."""
        return self._called("REPLACE", search, replacement)

    def translate(self, from_str: Any, to_str: Any) -> Self:
        """Replace each character of `from_str` by that of `to_str` at its place."""
        return self._called("TRANSLATE", from_str, to_str)

    def like(self, pattern: Any) -> Self:
        """Return whether it matches a pattern with % and _."""
        return self._made("({} LIKE {})", pattern)

    def similar(self, pattern: Any) -> Self:
        """Return whether it matches a regular expression of SQL."""
        return self._made("({} SIMILAR TO {})", pattern)

    def position(self, haystack: Any) -> Self:
        """Return the position of this text in another, from 1; 0: it is not there."""
        return self._made("POSITION({} IN {})", haystack)

    def lpad(self, length: Any, pad: Any) -> Self:
        """Fill the text at its start, up to a length."""
        return self._called("LPAD", length, pad)

    def rpad(self, length: Any, pad: Any) -> Self:
        """Fill the text at its end, up to a length."""
        return self._called("RPAD", length, pad)

    def regexp(self, regex: Any) -> Self:
        """Return whether a part matches a regular expression of Java."""
        return self._called("REGEXP", regex)

    def regexp_count(self, regex: Any) -> Self:
        """Return how often a regular expression matches."""
        return self._called("REGEXP_COUNT", regex)

    def regexp_replace(self, regex: Any, replacement: Any) -> Self:
        """Replace all matches of a regular expression."""
        return self._called("REGEXP_REPLACE", regex, replacement)

    def regexp_extract(self, regex: Any, extract_index: Any = None) -> Self:
        """Return a group of the first match; 0: all of it."""
        return self._called("REGEXP_EXTRACT", regex, extract_index)

    def regexp_extract_all(self, regex: Any, extract_index: Any = None) -> Self:
        """Return a group of each match."""
        return self._called("REGEXP_EXTRACT_ALL", regex, extract_index)

    def regexp_instr(self, regex: Any) -> Self:
        """Return the position of the first match, from 1."""
        return self._called("REGEXP_INSTR", regex)

    def regexp_substr(self, regex: Any) -> Self:
        """Return the first match."""
        return self._called("REGEXP_SUBSTR", regex)

    def decode(self, charset: Any) -> Self:
        """Return the text of bytes in a character set."""
        return self._called("DECODE", charset)

    def encode(self, charset: Any) -> Self:
        """Return the bytes of a text in a character set."""
        return self._called("ENCODE", charset)

    def left(self, length: Any) -> Self:
        """Return the first characters."""
        return self._called("LEFT", length)

    def right(self, length: Any) -> Self:
        """Return the last characters."""
        return self._called("RIGHT", length)

    def instr(self, s: Any) -> Self:
        """Return the position of a text in this one, from 1."""
        return self._called("INSTR", s)

    def locate(self, s: Any, pos: Any = None) -> Self:
        """Return the position of this text in `s`, from 1, at `pos` or behind it."""
        return self._called("LOCATE", s, pos)

    def url_decode(self) -> Self:
        """Decode a URL."""
        return self._called("URL_DECODE")

    def url_encode(self) -> Self:
        """Encode for a URL."""
        return self._called("URL_ENCODE")

    def inet_aton(self) -> Self:
        """Return the number of an IPv4 address."""
        return self._called("INET_ATON")

    def inet_ntoa(self) -> Self:
        """Return the IPv4 address of a number."""
        return self._called("INET_NTOA")

    def parse_url(self, part_to_extract: Any, key: Any = None) -> Self:
        """Return a part of a URL, such as HOST."""
        return self._called("PARSE_URL", part_to_extract, key)

    def printf(self, *args: Any) -> Self:
        """Fill a format in the manner of C."""
        return self._called("PRINTF", *args)

    def ltrim(self, trim_str: Any = None) -> Self:
        """Remove characters from the start; default: blanks."""
        return self._called("LTRIM", trim_str)

    def rtrim(self, trim_str: Any = None) -> Self:
        """Remove characters from the end; default: blanks."""
        return self._called("RTRIM", trim_str)

    def btrim(self, trim_str: Any = None) -> Self:
        """Remove characters from both ends; default: blanks."""
        return self._called("BTRIM", trim_str)

    def repeat(self, n: Any) -> Self:
        """Repeat the text."""
        return self._called("REPEAT", n)

    def split_index(self, separator: Any, index: Any) -> Self:
        """Return a part between separators, the first is 0."""
        return self._called("SPLIT_INDEX", separator, index)

    def split(self, delimiter: Any) -> Self:
        """Return the parts between delimiters."""
        return self._called("SPLIT", delimiter)

    def str_to_map(self, list_delimiter: Any = None, key_value_delimiter: Any = None) -> Self:
        """Return the map of a text such as a=1,b=2."""
        return self._called("STR_TO_MAP", list_delimiter, key_value_delimiter)

    def elt(self, expr: Any, *args: Any) -> Self:
        """Return the argument at this place, from 1."""
        return self._called("ELT", expr, *args)

    def trim(self, character: Any = None) -> Self:
        """Remove characters from both ends; default: blanks."""
        return self._trimmed("BOTH", character)

    def trim_leading(self, character: Any = None) -> Self:
        """Remove characters from the start; default: blanks."""
        return self._trimmed("LEADING", character)

    def trim_trailing(self, character: Any = None) -> Self:
        """Remove characters from the end; default: blanks."""
        return self._trimmed("TRAILING", character)

    def _trimmed(self, where: str, character: Any) -> Self:
        return self._made(f"TRIM({where} {{1}} FROM {{0}})", " " if character is None else character)

    def overlay(self, new_string: Any, starting: Any, length: Any = None) -> Self:
        """Replace the characters from a position on by a text; `length`: how many; None: as many as it has."""
        if length is None:
            return self._made("OVERLAY({} PLACING {} FROM {})", new_string, starting)
        return self._made("OVERLAY({} PLACING {} FROM {} FOR {})", new_string, starting, length)
