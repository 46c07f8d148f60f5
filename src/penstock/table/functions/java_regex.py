r"""Java's regular expressions, as Python's `re` understands them.

What differs and is translated: named groups `(?<name>)`, `\p{Alpha}` and its like, `\h`, `\R`, `\z`, `\Q...\E`, `.` and
`$` by Java's line terminators, `&&` is refused. Classes such as `\d` are ASCII, as in Java.
"""

from __future__ import annotations

import re
from functools import lru_cache

_LINE_END = r"\n\r\u0085\u2028\u2029"
_PROPERTIES = {
    "Lower": "a-z", "Upper": "A-Z", "ASCII": r"\x00-\x7f", "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~", "Graph": "!-~", "Print": " -~", "Blank": r" \t", "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F", "Space": r" \t\n\x0b\f\r", "javaLowerCase": "a-z", "javaUpperCase": "A-Z",
    "L": r"^\W\d_", "IsAlphabetic": r"^\W\d_", "N": r"\d", "IsDigit": r"\d",
}  # fmt: skip
_ESCAPES = {"h": r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000", "e": r"\x1b", "a": r"\x07"}


@lru_cache(maxsize=1000)
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of Java. Raises re.error if it is invalid, or uses what Python does not have."""
    return re.compile(translated(pattern), re.ASCII)


def translated(pattern: str) -> str:
    """Return the pattern in Python's syntax."""
    return _Translator(pattern).text()


class _Translator:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._out: list[str] = []

    def text(self) -> str:
        while self._at < len(self._pattern):
            self._step()
        return "".join(self._out)

    def _step(self) -> None:
        character = self._pattern[self._at]
        rest = self._pattern[self._at :]
        if character == "\\":
            self._out.append(self._escape(inside=False))
        elif character == "[":
            self._out.append(self._class())
        elif rest.startswith("(?<") and rest[3:4] not in ("=", "!"):
            self._put("(?P<", 3)
        elif character == ".":
            self._put(f"[^{_LINE_END}]", 1)
        elif character == "$":
            self._put(r"(?=(?:\r\n|[\n\r\u0085\u2028\u2029])?\Z)", 1)
        else:
            self._put(character, 1)

    def _put(self, text: str, length: int) -> None:
        self._out.append(text)
        self._at += length

    def _escape(self, *, inside: bool) -> str:
        character = self._pattern[self._at + 1 : self._at + 2]
        if not character:
            raise re.error("the pattern ends with a backslash", self._pattern, self._at)
        self._at += 2
        if character == "Q":
            end = self._pattern.find("\\E", self._at)
            quoted = self._pattern[self._at : end if end >= 0 else None]
            self._at = len(self._pattern) if end < 0 else end + 2
            return re.escape(quoted)
        if character in "pP":
            return self._property(negated=character == "P", inside=inside)
        if character in _ESCAPES:
            return _ESCAPES[character] if inside else f"[{_ESCAPES[character]}]"
        if character == "k":
            end = self._pattern.index(">", self._at)
            name = self._pattern[self._at + 1 : end]
            self._at = end + 1
            return f"(?P={name})"
        if character == "x" and self._pattern[self._at : self._at + 1] == "{":
            end = self._pattern.index("}", self._at)
            code = int(self._pattern[self._at + 1 : end], 16)
            self._at = end + 1
            return re.escape(chr(code))
        return {"z": r"\Z", "Z": r"(?=\n?\Z)", "R": r"(?:\r\n|[\n\x0b\f\r\u0085\u2028\u2029])", "G": r"\A"}.get(
            character, "\\" + character
        )

    def _property(self, *, negated: bool, inside: bool) -> str:
        match = re.compile(r"\{(\w+)\}|(\w)").match(self._pattern, self._at)
        name = match and (match[1] or match[2])
        if match is None or name not in _PROPERTIES:
            raise re.error(f"the property {name} is not supported", self._pattern, self._at)
        self._at = match.end()
        content = _PROPERTIES[name]
        if inside:
            if negated or content.startswith("^"):
                raise re.error(f"the property {name} is not supported in a class", self._pattern, self._at)
            return content
        if content.startswith("^"):
            content, negated = content[1:], not negated
        return f"[{'^' if negated else ''}{content}]"

    def _class(self) -> str:
        out = ["["]
        self._at += 1
        if self._pattern[self._at : self._at + 1] == "^":
            out.append("^")
            self._at += 1
        first = True
        while self._at < len(self._pattern):
            character = self._pattern[self._at]
            if character == "]" and not first:
                self._at += 1
                return "".join([*out, "]"])
            if character == "\\":
                out.append(self._escape(inside=True))
            elif character == "[" or self._pattern.startswith("&&", self._at):
                raise re.error("unions and intersections of classes are not supported", self._pattern, self._at)
            else:
                out.append("\\" + character if character in "[]" else character)
                self._at += 1
            first = False
        raise re.error("unclosed character class", self._pattern, self._at)


_ITSELF = r"[A-Za-z0-9 _/&=:;,#@!%<>~\"'-]"
_ESCAPE = r"\\[dwDW.+*?()\[\]|/^$-]"
_CLASS = r"\[\^?(?:[A-Za-z0-9 _/&=:;,.#@!%?+*()|-]|\\[dw.-])+\]"
_RE2_SAFE = re.compile(rf"(?:{_ITSELF}|{_ESCAPE}|{_CLASS}|[|^*+?]|\((?:\?:)?|\))+")
"""What RE2 and Java have in common, by syntax and meaning."""


def re2_pattern(pattern: str) -> str | None:
    """Return the pattern with its groups named g1, g2, ..., if RE2 finds what Java finds; else None."""
    if not _RE2_SAFE.fullmatch(pattern) or re.search(r"[*+?][*+?]|\((?!\?:)\?", pattern):
        return None
    try:
        compiled(pattern)
    except re.error:
        return None
    count = 0

    def named(match: re.Match[str]) -> str:
        nonlocal count
        if match[0] != "(":
            return match[0]
        count += 1
        return f"(?P<g{count}>"

    return re.sub(r"\\.|\[(?:\\.|[^\]\\])*\]|\(\?:|\(", named, pattern)
