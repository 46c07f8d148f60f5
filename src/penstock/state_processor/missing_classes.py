"""Values of classes that can't be imported here: shown by the name of the class and the fields that they have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.common.errors import CheckpointError
from penstock.state.gained_fields import STAND_IN


class MissingClass(type):
    """Type of the stand-ins. `name` is that of the class which is missing, with its module."""

    name: str


class MissingObject(metaclass=MissingClass):
    """An instance of a class that is missing. `arguments` made it, `fields` are its attributes, `items` its contents.

    Two are equal, and hash alike, if they show the same.
    """

    name = ""

    def __new__(cls, *arguments: Any, **keywords: Any) -> MissingObject:
        """Pickle calls the class that it looks for, or this, with what the object was made of."""
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
        # A dict of attributes, or that and one of slots.
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.fields.update(part)
            elif part is not None:
                self.arguments = (*self.arguments, part)

    def append(self, item: Any) -> None:
        """The class is a list."""
        self.items.append(item)

    def extend(self, items: Any) -> None:
        """The class is a list."""
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
    """What is read meanwhile may hold values of classes that are missing, or CheckpointError is raised for one."""
    token = STAND_IN.set(_stand_in if allow_missing else _refuse)
    try:
        yield
    finally:
        STAND_IN.reset(token)


_known: dict[str, MissingClass] = {}


def _stand_in(module: str, name: str) -> MissingClass:
    full = f"{module}.{name}"
    if full not in _known:
        _known[full] = MissingClass(name.rpartition(".")[2], (MissingObject,), {"name": full})
    return _known[full]


def _refuse(module: str, name: str) -> Any:
    raise CheckpointError(
        f"the state holds values of {module}.{name}, which can't be imported here. Put its module on the path (for a "
        "class of the job's own script: define it here, too), or read with allow_missing_classes=True"
    )
