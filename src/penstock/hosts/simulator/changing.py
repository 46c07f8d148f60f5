"""Functions that change values which they have emitted or received. Other functions must not see the changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from penstock.datastream.functions import FlatMapFunction, MapFunction
from penstock.hosts.simulator.lifecycles import RecordedFunction
from penstock.hosts.simulator.programs import Record

_SPOILT = -1_000_000_007


class Box:
    """A mutable object with a hash, so it can be in a set."""

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
"""Conversions of a record into other values. Their third item is the key, like a record's."""


class EmitAndChange(RecordedFunction, FlatMapFunction[Record, Any]):
    """Emits each record several times, as one value of that form; changes it before each copy and at the end."""

    def __init__(self, form: str, copies: int) -> None:
        self.form = form
        self.copies = copies

    def flat_map(self, value: Record) -> Iterator[Any]:
        self.check_open()
        emitted = FORMS[self.form](value)
        for _, path, _, number in changed_copies(value, self.copies):
            _change(emitted, path, number)
            yield emitted
        spoil(emitted)


class EmitAndChangeLater(RecordedFunction, MapFunction[Record, Any]):
    """Returns each record as a value of that form, and changes the value when it gets the next record."""

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


class ReadAndChange(RecordedFunction, MapFunction[Any, Record]):
    """Converts each value back to a record, and then changes the value."""

    def map(self, value: Any) -> Record:
        self.check_open()
        items, path, number = _changeable(value)
        record = value[0], items[path], value[2], items[number]
        spoil(value)
        return record


def changed_copies(record: Record, copies: int | None) -> list[Record]:
    """Return the output of EmitAndChange for a record; if `copies` is None, of EmitAndChangeLater."""
    origin, path, key, number = record
    return [record] if copies is None else [(origin, (*path, copy), key, number + copy) for copy in range(copies)]


def spoil(value: Any) -> None:
    """Change the mutable parts of a value in one of the forms."""
    _change(value, (_SPOILT,), _SPOILT)


def _change(value: Any, path: tuple[int, ...], number: int) -> None:
    items, of_path, of_number = _changeable(value)
    items[of_path], items[of_number] = path, number


def _changeable(value: Any) -> tuple[Any, int, int]:
    """Return the mutable list or dict in a value, and the positions of path and number in it."""
    if isinstance(value, tuple):
        inner = value[1]
        return (next(iter(inner)).fields if isinstance(inner, frozenset) else inner), 0, 1
    return (value.fields if isinstance(value, Box) else value), 1, 3
