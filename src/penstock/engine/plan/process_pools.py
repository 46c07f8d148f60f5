"""Functions and classes of the job's script in processes that a user's function starts with `multiprocessing`.

These processes get what they call in pickles, which name functions and classes of `__main__`. After `fork`, that is the
worker's `__main__`, where both are found. After `spawn` and `forkserver` it is a new one: so the pickles bring them by
value, and the first one is set into the new `__main__`. Lambdas and nested functions always go by value.
"""

from __future__ import annotations

import functools
import pickle
import sys
from multiprocessing import reduction
from typing import Any

from penstock.common.functions.script_functions import SCRIPT, found_in_script, is_function, same_function
from penstock.engine.plan import program_pickler


def install() -> None:
    """Have `multiprocessing` in this process send functions and classes of the script in this way."""
    _top_level.cache_clear()
    pickler: Any = reduction.ForkingPickler
    pickler.reducer_override = _reduced


def _reduced(pickler: Any, value: Any) -> Any:
    is_class = isinstance(value, type) and value.__module__ == SCRIPT
    if not is_class and not is_function(value):
        return NotImplemented
    name = value.__qualname__
    found = found_in_script(name)
    if found is value or (not is_class and same_function(found, value)):
        top = name.partition(".")[0]
        return of_script, (name, _top_level(top))
    return pickle.loads, (program_pickler.dumps(value),)


@functools.lru_cache(256)
def _top_level(name: str) -> bytes:
    return program_pickler.dumps(found_in_script(name))


def of_script(name: str, data: bytes) -> Any:
    """The function or class of this name. `data`: that of the first part of the name, for a process without it."""
    found = found_in_script(name)
    if getattr(found, "__module__", None) != SCRIPT:
        install()
        setattr(sys.modules[SCRIPT], name.partition(".")[0], pickle.loads(data))
        found = found_in_script(name)
    return found
