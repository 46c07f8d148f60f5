"""PyFlink's names that penstock has in another module, or does not have.

PyFlink's modules also contain the names that they import from each other, and programs import these from there:
`from pyflink.datastream.window import Time`. The file pyflink.toml lists them, and the names that penstock leaves out,
with advice. It is read only when a name is missing.
"""

from __future__ import annotations

import importlib
import sys
import tomllib
from functools import cache, partial
from pathlib import Path
from typing import Any

_LEFT_OUT = ("names", "tables", "formerly")


@cache
def _table() -> dict[str, dict[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("pyflink.toml").read_text(encoding="utf-8"))


def reason(name: str) -> str | None:
    """Return why penstock leaves out a name, and what to do instead; None if the name is unknown.

    `name`: `pyflink.datastream KeyedStream.cache`, or a module. A name without an entry has the reason of its module or
    package.
    """
    tables = [_table()[part] for part in _LEFT_OUT]
    while name:
        for table in tables:
            if name in table:
                return str(table[name])
        name = name[: max(name.rfind("."), name.rfind(" "), 0)]
    return None


def resolve_missing_names(module: str) -> None:
    """Let a module resolve names of PyFlink's module that it does not define.

    A name that is defined elsewhere is found. A name that is left out raises an ImportError with advice: the import
    system would drop the text of an AttributeError.
    """
    vars(sys.modules[module]).setdefault("__getattr__", partial(resolved, module))


def resolved(module: str, name: str) -> Any:
    """Return a name of PyFlink's that is defined elsewhere. Raises ImportError with advice, or AttributeError."""
    if not name.startswith("_"):
        for home, names in _table()["elsewhere"].get(_theirs(module), {}).items():
            if name in names:
                return getattr(importlib.import_module(home), name)
        path = f"{_theirs(module)} {name}"
        for table in (_table()[part] for part in _LEFT_OUT):
            if path in table:
                raise ImportError(f"penstock has no {name} in {module}: {table[path]}", name=module)
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


def missing_method(owner: type, name: str) -> AttributeError:
    """Return the error for a method that `owner` does not have, with what to do if it is one of PyFlink's."""
    for kind in owner.__mro__:
        path = f"{_theirs(kind.__module__)} {kind.__name__}.{name}"
        for table in (_table()[part] for part in _LEFT_OUT):
            if path in table:
                return AttributeError(f"penstock's {kind.__name__} has no {name}: {table[path]}")
    return AttributeError(f"{owner.__name__!r} object has no attribute {name!r}")


def _theirs(module: str) -> str:
    return module.replace("penstock", "pyflink", 1)
