"""Options that are secrets, such as passwords: the planner, plans and EXPLAIN have references instead of their values.

`'password' = 'hunter2'` of the table `orders` becomes `'password' = '${secret:orders:password}'` before the planner
sees the statement. A job that starts, or is restored with the plan that it ran with, gets the values from the
statements of its program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from penstock.common.configuration import is_sensitive
from penstock.common.text.secrets import has_secret, is_secret_name
from penstock.table.planner.errors import SqlError
from penstock.table.planner.statements import Token, tokens

_REFERENCE = re.compile(r"\$\{secret:([^}]*)\}")
_HINT = re.compile(r"(/\*\+)(.*)(\*/)", re.DOTALL)
_PATH = r"(?:`[^`]+`|\w+)(?:\s*\.\s*(?:`[^`]+`|\w+))*"
_OBJECT = re.compile(
    rf"\s*(?:CREATE|ALTER)\s+(?:OR\s+REPLACE\s+)?(?:TEMPORARY\s+)?\w+\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?({_PATH})",
    re.IGNORECASE,
)
_PATH_BACKWARDS = re.compile(rf"\s*({_PATH})")
"""A path is one from its end on, too: so no place before it is tried."""


def is_secret_option(key: str, value: str) -> bool:
    """Return whether an option has a secret: by its name, or because its value has one, such as a URL's password."""
    return is_sensitive(key) or is_secret_name(key) or has_secret(value)


class SecretOptions:
    """The secrets of a program's statements. They can't be pickled, and their text does not show them."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"SecretOptions({sorted(self._values)})"

    def __reduce__(self) -> str:
        raise TypeError("secrets are not stored: resolve the options where the program starts or restores the job")

    def hide(self, sql: str) -> str:
        """Return the statement with references in place of secrets, in WITH, SET and hints of OPTIONS."""
        found = list(tokens(sql))
        created = _OBJECT.match("".join(" " if token.kind == "comment" else token.text for token in found))
        pieces = self._hidden(found, _name(created[1]) if created else "SET")
        for at, token in enumerate(found):
            if token.kind == "comment" and (hint := _HINT.fullmatch(token.text)):
                table = _PATH_BACKWARDS.match(sql[: token.start][::-1])
                hidden = self._hidden(list(tokens(hint[2])), _name(table[1][::-1]) if table else "OPTIONS")
                pieces[at] = f"{hint[1]}{''.join(hidden)}{hint[3]}"
        return "".join(pieces)

    def hide_option(self, table: str, key: str, value: str) -> str:
        """Return a reference to the value of this table's option if it is a secret, otherwise the value."""
        if _REFERENCE.search(value) or not is_secret_option(key, value):
            return value
        name, number = f"{table}:{key}".replace("}", ""), 1
        while self._values.setdefault(name, value) != value:
            # A table of this name in another database, or before it was dropped.
            number += 1
            name = f"{table}:{key}".replace("}", "") + f"#{number}"
        return f"${{secret:{name}}}"

    def resolve(self, options: Mapping[str, str]) -> dict[str, str]:
        """Return the options with values in place of references. Raises SqlError if the program does not have one."""
        return {key: self._resolved(key, value) for key, value in options.items()}

    def _resolved(self, key: str, value: str) -> str:
        return _REFERENCE.sub(lambda reference: self._value(key, reference), value)

    def _value(self, key: str, reference: re.Match[str]) -> str:
        name = reference[1]
        if name in self._values:
            return self._values[name]
        raise SqlError(
            f"the option {key!r} is a secret, which plans do not hold, and this program has no statement with "
            f"{name.rpartition('#')[0] or name}. Create the table with this option before the plan is executed"
        )

    def _hidden(self, found: Sequence[Token], table: str) -> list[str]:
        """Return the texts of the tokens, with references in place of secrets."""
        pieces = [token.text for token in found]
        for key, value in _options(found):
            hidden = self.hide_option(table, _value_of(pieces[key]), _value_of(pieces[value]))
            pieces[value] = "'" + hidden.replace("'", "''") + "'"
        return pieces


def _options(found: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Return the places of keys and values: `'k' = 'v'` in parentheses behind WITH, SET or OPTIONS, or behind SET."""
    places = [at for at, token in enumerate(found) if token.kind != "comment" and token.text.strip()]
    texts = [found[at].text for at in places]
    depth = 0
    for index, text in enumerate(texts):
        opener = texts[index - 1].upper() if index else ""
        if text == "(" and (depth or opener in ("WITH", "SET", "OPTIONS")):
            depth += 1
        elif text == ")" and depth:
            depth -= 1
        elif depth or (index == 1 and opener == "SET"):
            key, *rest = texts[index : index + 3]
            if len(rest) == 2 and rest[0] == "=" and key.startswith("'") and rest[1].startswith("'"):
                yield places[index], places[index + 2]


def _name(path: str) -> str:
    return re.sub(r"[`\s]", "", path)


def _value_of(literal: str) -> str:
    return literal[1:-1].replace("''", "'")
