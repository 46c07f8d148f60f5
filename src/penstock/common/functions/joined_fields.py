"""Joins that return fields of both records, such as `select(left=["order"], right={"paid": "amount"})`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.common.functions.field_key import FieldKey
from penstock.common.types import row_factory

LEFT, RIGHT = "left", "right"


class JoinedField(NamedTuple):
    """A field of the results: its name, and the side and the field that it comes from."""

    name: str
    side: str
    field: str


class JoinedFields:
    """A function of pairs that returns a Row of fields of both."""

    sides = (LEFT, RIGHT)

    def __init__(self, fields: tuple[JoinedField, ...]) -> None:
        self.fields = fields
        self._reads = [(one.side == LEFT, FieldKey((one.field,))) for one in fields]

    def fields_of(self, side: str) -> tuple[str, ...]:
        """Return the fields that are read of one side, each once."""
        return tuple(dict.fromkeys(one.field for one in self.fields if one.side == side))

    def open(self, runtime_context: Any) -> None:
        """Make the function that makes Rows, once."""
        self._row = row_factory(tuple(one.name for one in self.fields))

    def close(self) -> None:
        """Do nothing."""

    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        """Yield the Row of a pair. Raises TypeError for a record that lacks a field."""
        yield self._row([read(left if is_left else right) for is_left, read in self._reads])

    def join(self, left: Any, right: Any) -> Any:
        """Return the Row of a pair, of which one may be None: its fields are None. Raises TypeError as above."""
        return self._row(
            [
                None if record is None else read(record)
                for is_left, read in self._reads
                for record in (left if is_left else right,)
            ]
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return JoinedFields, (self.fields,)


def joined_fields(
    left: Sequence[str] | Mapping[str, str],
    right: Sequence[str] | Mapping[str, str],
    names: tuple[Sequence[str] | None, Sequence[str] | None],
) -> tuple[JoinedField, ...]:
    """Return the fields that a user has selected. `names`: the fields of each side, if they are known.

    Raises TypeError or ValueError if the records lack one, or two have one name.
    """
    fields: dict[str, JoinedField] = {}
    for side, declared, known in zip((LEFT, RIGHT), (left, right), names, strict=True):
        for name, field in _named(side, declared):
            if known is not None and field not in known:
                raise ValueError(f"the {side} records have no field {field!r}: they have {', '.join(known)}")
            if name in fields:
                raise ValueError(
                    f"both streams have a field {name!r} to select: name one of them, "
                    f'e.g. {side}={{"{side}_{name}": "{field}"}}'
                )
            fields[name] = JoinedField(name, side, field)
    if not fields:
        raise ValueError('expected one field at least, e.g. left=["order"]')
    return tuple(fields.values())


def _named(side: str, declared: Any) -> Iterator[tuple[str, str]]:
    """Yield the name of each result and the field."""
    is_list = isinstance(declared, Sequence) and not isinstance(declared, str)
    if not (is_list or isinstance(declared, Mapping)):
        raise TypeError(
            f'expected names of fields for {side}, e.g. ["order"], or {{"name of the result": "field"}}, '
            f"got {declared!r}"
        )
    pairs = [(name, name) for name in declared] if is_list else list(declared.items())
    names = [name for name, _ in pairs]
    for name, field in pairs:
        if not (isinstance(name, str) and isinstance(field, str)):
            raise TypeError(f"expected names of fields for {side}, got {name if isinstance(field, str) else field!r}")
        if names.count(name) > 1:
            raise ValueError(f"{side} has {name!r} twice: each result needs a name of its own")
        yield name, field
