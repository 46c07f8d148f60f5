"""Side outputs: a function emits `(tag, value)` beside its plain values; here they are separated.

In PyFlink map, flat_map and the functions of connected streams are process functions, so all of these may do so.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from penstock.api.output_tag import OutputTag, tags_exist
from penstock.engine.runtime.operators.operator import Output, Timestamps, Values

_FIRST = itemgetter(0)


def emit_tagged(output: Output, values: Values, timestamps: Timestamps) -> bool:
    """Emit a chunk in which pairs of an OutputTag and a value go to that side output.

    While no OutputTag has been made in this process, none can be in the chunk, and values are not inspected.
    """
    if not (tags_exist() and _has_tagged(values)):
        return output.emit(values, timestamps)
    main: list[int] = []
    sides: dict[OutputTag[Any], list[int]] = {}
    for index, value in enumerate(values):
        if type(value) is tuple and len(value) == 2 and isinstance(value[0], OutputTag):
            sides.setdefault(value[0], []).append(index)
        else:
            main.append(index)
    go_on = True
    for tag, indices in sides.items():
        times = None if timestamps is None else [timestamps[i] for i in indices]
        go_on = output.emit_side(tag, [values[i][1] for i in indices], times) and go_on
    times = None if timestamps is None else [timestamps[i] for i in main]
    return output.emit([values[i] for i in main], times) and go_on


def _has_tagged(values: Values) -> bool:
    """Whether there may be pairs of an OutputTag and a value: one look at each type, without a loop in Python."""
    types = set(map(type, values))
    if tuple not in types:
        return False
    tuples = values if len(types) == 1 else [value for value in values if type(value) is tuple]
    try:
        return any(issubclass(first, OutputTag) for first in set(map(type, map(_FIRST, tuples))))
    except IndexError:
        return True
