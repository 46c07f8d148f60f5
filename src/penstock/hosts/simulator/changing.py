"""Functions that change their values: what they have emitted, and what they are given. Nobody else may see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from penstock.datastream.functions import FlatMapFunction, MapFunction
from penstock.hosts.simulator.lifecycles import Followed
from penstock.hosts.simulator.programs import Record

_SPOILT = -1_000_000_007


class Box:
    """An object that has a hash, so that it may be in a set, and can be changed nevertheless."""

    def __init__(self, fields: list[Any]) -> None:
        self.fields = fields

    def __getitem__(self, index: int) -> Any:
        return self.fields[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and other.fields == self.fields

    def __hash__(self) -> int:
        return 0


FORMS: dict[str, Callable[[Record], Any]] = {
    "list": list,
    "dict": lambda record: dict(enumerate(record)),
    "in a tuple": lambda record: (record[0], [record[1], record[3]], record[2]),
    "box": lambda record: Box(list(record)),
    "in a frozenset": lambda record: (record[0], frozenset([Box([record[1], record[3]])]), record[2]),
}
"""What a record is made into: something whose third item is the key, as a record's is."""


class Held(Followed, FlatMapFunction[Record, Any]):
    """Emits each record several times, as one value of that form, which it changes between and behind."""

    def __init__(self, form: str, copies: int) -> None:
        self.form = form
        self.copies = copies

    def flat_map(self, value: Record) -> Iterator[Any]:
        self.check_open()
        emitted = FORMS[self.form](value)
        for _, path, _, number in held(value, self.copies):
            _change(emitted, path, number)
            yield emitted
        spoil(emitted)


class HeldForLong(Followed, MapFunction[Record, Any]):
    """Returns each record as a value of that form, and changes it when it is given the next one."""

    def __init__(self, form: str) -> None:
        self.form = form

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self._last: Any = None

    def map(self, value: Record) -> Any:
        self.check_open()
        if self._last is not None:
            spoil(self._last)
        self._last = FORMS[self.form](value)
        return self._last


class Settle(Followed, MapFunction[Any, Record]):
    """Makes a record of each value again, and changes what it was given."""

    def map(self, value: Any) -> Record:
        self.check_open()
        items, path, number = _changeable(value)
        record = value[0], items[path], value[2], items[number]
        spoil(value)
        return record


def held(record: Record, copies: int | None) -> list[Record]:
    """Return the records that Held, or with None HeldForLong, makes of one."""
    origin, path, key, number = record
    return [record] if copies is None else [(origin, (*path, copy), key, number + copy) for copy in range(copies)]


def spoil(value: Any) -> None:
    """Change whatever can be changed of a value that has one of the forms."""
    _change(value, (_SPOILT,), _SPOILT)


def _change(value: Any, path: tuple[int, ...], number: int) -> None:
    items, of_path, of_number = _changeable(value)
    items[of_path], items[of_number] = path, number


def _changeable(value: Any) -> tuple[Any, int, int]:
    """The list or dict in a value that can be changed, and where in it path and number are."""
    if isinstance(value, tuple):
        inner = value[1]
        return (next(iter(inner)).fields if isinstance(inner, frozenset) else inner), 0, 1
    return (value.fields if isinstance(value, Box) else value), 1, 3
