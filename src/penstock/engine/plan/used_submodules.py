"""Submodules that functions use as attributes of packages: `import xml.dom.minidom`, then `xml.dom.minidom.parse`.

A function of the script is sent by value, with the modules that its code names: here, `xml`. Nothing in the code says
that the script has imported the submodule, too, so it is looked for among all that are imported. cloudpickle looks at
the names in the function's own code, not in that of lambdas, comprehensions and functions inside.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any


def used_submodules(function: FunctionType, named: Iterable[Any]) -> list[ModuleType]:
    """Imported submodules of which `function` uses all names. `named`: the globals that it names, packages included."""
    values = [*named, *map(_content_of, function.__closure__ or ())]
    packages = [
        value.__name__ + "." for value in values if isinstance(value, ModuleType) and hasattr(value, "__path__")
    ]
    if not packages:
        return []
    names = _names_in(function.__code__)
    return [
        module
        for name, module in list(sys.modules.items())
        for package in packages
        if name.startswith(package) and names.issuperset(name.removeprefix(package).split("."))
    ]


def _content_of(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        # It is empty: what it will hold is not assigned yet.
        return None


def _names_in(code: CodeType) -> set[str]:
    inside = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names_in, inside))
