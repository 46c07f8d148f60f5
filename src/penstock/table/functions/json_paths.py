"""JSON paths: `$.a[0]['b'][*]`, `..name`, slices and unions. Filters are not supported.

A path that can match several values gives a list; one that cannot gives the value, or raises PathNotFoundError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple


class PathNotFoundError(LookupError):
    """A path that names one value leads to nothing."""


class InvalidPathError(ValueError):
    """The text cannot be read as a path."""


class Step(NamedTuple):
    """A step of a path."""

    kind: str
    """names, indexes, slice, any or deep."""
    keys: tuple[Any, ...] = ()


_STEP = re.compile(
    r"\.\.(?P<deep>)|\.?\[\s*(?P<any>\*)\s*\]|\.(?P<star>\*)|\.(?P<name>[^.\[\]\s'\"()*]+)"
    r"|\.?\[\s*(?P<names>'(?:[^'\\]|\\.)*'(?:\s*,\s*'(?:[^'\\]|\\.)*')*|\"(?:[^\"\\]|\\.)*\"(?:\s*,\s*\"(?:[^\"\\]|\\.)*\")*)\s*\]"
    r"|\.?\[\s*(?P<slice>-?\d*\s*:\s*-?\d*)\s*\]|\.?\[\s*(?P<indexes>-?\d+(?:\s*,\s*-?\d+)*)\s*\]"
)
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")


@lru_cache(maxsize=1000)
def steps_of(path: str) -> tuple[Step, ...]:
    """Read a path. Raises InvalidPathError."""
    path = path.strip()
    if not path.startswith("$"):
        raise InvalidPathError(f"expected a path that starts with $, got {path!r}")
    steps: list[Step] = []
    at = 1
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            raise InvalidPathError(f"cannot read the path {path!r} at position {at}")
        steps.append(_step(match))
        at = match.end()
        if steps[-1].kind == "deep":
            at -= 0 if path[at : at + 1] == "[" else 1
    return tuple(steps)


def _step(match: re.Match[str]) -> Step:
    if match["deep"] is not None:
        return Step("deep")
    if match["any"] or match["star"]:
        return Step("any")
    if match["name"]:
        return Step("names", (match["name"],))
    if match["names"]:
        found = _QUOTED.findall(match["names"])
        return Step("names", tuple(re.sub(r"\\(.)", r"\1", one or other) for one, other in found))
    if match["slice"]:
        start, end = (int(part) if part.strip() else None for part in match["slice"].split(":"))
        return Step("slice", (start, end))
    return Step("indexes", tuple(int(part) for part in match["indexes"].split(",")))


def find(value: Any, path: str) -> Any:
    """Return what the path leads to. Raises PathNotFoundError, InvalidPathError."""
    steps = steps_of(path)
    if all(step.kind in ("names", "indexes") and len(step.keys) == 1 for step in steps):
        return _one(value, steps)
    found = [value]
    for step in steps:
        found = [one for parent in found for one in _children(parent, step)]
    return found


def _one(value: Any, steps: tuple[Step, ...]) -> Any:
    shown = "$"
    for step in steps:
        key = step.keys[0]
        shown += f"['{key}']" if step.kind == "names" else f"[{key}]"
        try:
            known = isinstance(value, dict) if step.kind == "names" else isinstance(value, list)
            value = value[key] if known else _missing(shown)
        except (KeyError, IndexError):
            _missing(shown)
    return value


def _missing(shown: str) -> Any:
    raise PathNotFoundError(f"No results for path: {shown}")


def _children(value: Any, step: Step) -> Iterator[Any]:
    if step.kind == "deep":
        yield value
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for one in inner:
            yield from _children(one, step)
    elif step.kind == "any":
        yield from value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    elif step.kind == "names" and isinstance(value, dict):
        yield from (value[key] for key in step.keys if key in value)
    elif step.kind == "slice" and isinstance(value, list):
        yield from value[slice(*step.keys)]
    elif step.kind == "indexes" and isinstance(value, list):
        yield from (value[key] for key in step.keys if -len(value) <= key < len(value))
