"""Which function translates which node. To add a node, write a file in `nodes/` with a function for its class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from penstock.engine.plan.transformations import Transformation
from penstock.table.execution import nodes
from penstock.table.planner.nodes.base import ExecNode

Translator = Callable[[Any, Any, Sequence[Transformation]], Transformation]
"""Takes the Translation, the node and its inputs, and returns the stream of its rows.

Raises UnsupportedPlanError for what the node asks for and is not supported; the message gets the node's name and SQL.
"""

_translators: dict[type[ExecNode], Translator] = {}


def translates(*types: type[ExecNode]) -> Callable[[Translator], Translator]:
    """Register the function that translates these nodes."""

    def register(function: Translator) -> Translator:
        for one in types:
            if one in _translators:
                raise ValueError(f"{one.__name__} is translated twice")
            _translators[one] = function
        return function

    return register


@cache
def translators() -> Mapping[type[ExecNode], Translator]:
    """Return all translators by the class of the node. The first call imports their modules."""
    for module in iter_modules(nodes.__path__):
        import_module(f"{nodes.__name__}.{module.name}")
    return _translators
