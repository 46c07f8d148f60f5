"""Placeholders for values of classes that cannot be imported: they show the class name and the fields."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.common.errors import CheckpointError
from penstock.engine.state.unpickling import MISSING_CLASS_SUBSTITUTE


class MissingClass(type):
    """Type of the placeholders. `name` is the qualified name of the missing class."""

    name: str


class MissingObject(metaclass=MissingClass):
    """An instance of a missing class: constructor `arguments`, attributes in `fields`, contents in `items`.

    Two placeholders are equal, with equal hashes, if their representations are equal.
    """

    name = ""

    def __new__(cls, *arguments: Any, **keywords: Any) -> MissingObject:
        """Create the placeholder. Pickle calls the missing class, or this method, with the constructor's arguments."""
        made = object.__new__(cls)
        made.arguments = arguments
        made.fields = dict(keywords)
        made.items = []
        return made

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        self.arguments: tuple[Any, ...]
        self.fields: dict[str, Any]
        self.items: list[Any]

    def __setstate__(self, state: Any) -> None:
        # The state is a dict of attributes, or a tuple of such a dict and a dict of slots.
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                # A pydantic model nests its fields in a dict.
                self.fields.update(part["__dict__"] if "__pydantic_fields_set__" in part else part)
            elif part is not None:
                self.arguments = (*self.arguments, part)

    def append(self, item: Any) -> None:
        """Append an item; pickle calls it if the class is a list."""
        self.items.append(item)

    def extend(self, items: Any) -> None:
        """Append items; pickle calls it if the class is a list."""
        self.items.extend(items)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items.append((key, value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MissingObject) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        parts = [*map(repr, self.arguments), *(f"{name}={value!r}" for name, value in self.fields.items())]
        contents = f" {self.items!r}" if self.items else ""
        return f"{type(self).name.rpartition('.')[2]}({', '.join(parts)}){contents}"


@contextmanager
def classes_found(allow_missing: bool) -> Iterator[None]:
    """Turn missing classes into placeholders while unpickling; raise CheckpointError if that is not allowed."""
    token = MISSING_CLASS_SUBSTITUTE.set(_placeholder_class if allow_missing else _refuse)
    try:
        yield
    finally:
        MISSING_CLASS_SUBSTITUTE.reset(token)


_known: dict[str, MissingClass] = {}


def _placeholder_class(module: str, name: str) -> MissingClass:
    full = f"{module}.{name}" if module else name
    if full not in _known:
        _known[full] = MissingClass(name.rpartition(".")[2], (MissingObject,), {"name": full})
    return _known[full]


def missing_object(full: str, fields: dict[str, Any]) -> MissingObject:
    """Return a placeholder for an object of a class, given its qualified name and fields."""
    made: MissingObject = _placeholder_class(*full.rpartition(".")[::2])()
    made.fields = fields
    return made


def _refuse(module: str, name: str) -> Any:
    raise CheckpointError(
        f"the state contains values of {module}.{name}, which can't be imported here. Add its module to the path, "
        "define the class here if it is one of the job's script, or read with allow_missing_classes=True"
    )
