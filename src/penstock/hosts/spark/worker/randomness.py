"""Random generators of a worker's own.

A worker is forked from a daemon that has imported libraries, so it begins with a copy of their generators: NumPy's
would draw the same numbers in every subtask. Python's `random` seeds itself after a fork; seeding it again is harmless.
"""

from __future__ import annotations

import sys

_GENERATORS = ("random", "numpy.random", "torch")
"""Modules with a global generator that their function `seed` draws anew, when it is called without an argument.

scikit-learn, SciPy and pandas draw from NumPy's; `uuid` and `secrets` draw from the operating system."""


def reseed() -> None:
    """Seed each inherited generator from the operating system. A module that is not imported yet will do so itself."""
    # Before the program is unpickled: a seed that the program sets stays.
    for name in _GENERATORS:
        module = sys.modules.get(name)
        if module is not None:
            module.seed()
