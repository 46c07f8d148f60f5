"""PyFlink's names that are elsewhere in penstock, or left out: found, or refused with what to do.

PyFlink's modules also have the names that they import from each other, and programs import them from there:
`from pyflink.datastream.window import Time`. The table of these, and of what is left out, is pyflink.toml beside this
module. It is read when a name is missing, and not before.
"""

from __future__ import annotations

import importlib
import sys
import tomllib
from functools import cache, partial
from pathlib import Path
from typing import Any

_LEFT_OUT = ("names", "formerly")


@cache
def _table() -> dict[str, dict[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("pyflink.toml").read_text(encoding="utf-8"))


def reason(name: str) -> str | None:
    """Why a name is left out, and what to do: `pyflink.datastream KeyedStream.cache`, or a module; None if unknown.

    For a name without an entry of its own, that of the module or package counts.
    """
    tables = [_table()[part] for part in _LEFT_OUT]
    while name:
        for table in tables:
            if name in table:
                return str(table[name])
        name = name[: max(name.rfind("."), name.rfind(" "), 0)]
    return None


def answer(module: str) -> None:
    """Let a module of penstock answer for names of PyFlink's module that it does not have.

    It finds what is elsewhere. What is left out by an entry of its own is an ImportError that says what to do: the
    import system drops the text of an AttributeError.
    """
    vars(sys.modules[module]).setdefault("__getattr__", partial(_elsewhere, module))


def missing_method(owner: type, name: str) -> AttributeError:
    """The error for a method that `owner` does not have, with what to do if it is one of PyFlink's."""
    for kind in owner.__mro__:
        path = f"{_theirs(kind.__module__)} {kind.__name__}.{name}"
        for table in (_table()[part] for part in _LEFT_OUT):
            if path in table:
                return AttributeError(f"penstock's {kind.__name__} has no {name}: {table[path]}")
    return AttributeError(f"{owner.__name__!r} object has no attribute {name!r}")


def _elsewhere(module: str, name: str) -> Any:
    if not name.startswith("_"):
        for home, names in _table()["elsewhere"].get(_theirs(module), {}).items():
            if name in names:
                return getattr(importlib.import_module(home), name)
        path = f"{_theirs(module)} {name}"
        for table in (_table()[part] for part in _LEFT_OUT):
            if path in table:
                raise ImportError(f"penstock has no {name} in {module}: {table[path]}", name=module)
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


def _theirs(module: str) -> str:
    return module.replace("penstock", "pyflink", 1)
