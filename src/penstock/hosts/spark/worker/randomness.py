"""Seed the random generators of a worker.

A worker is forked from a daemon that has imported libraries, so it starts with a copy of their generators: NumPy's
would return the same numbers in every subtask. Python's `random` seeds itself after a fork; seeding it again is
harmless.
"""

from __future__ import annotations

import sys

_GENERATORS = ("random", "numpy.random", "torch")
"""Modules with a global generator, whose function `seed` without an argument seeds it from the operating system.

scikit-learn, SciPy and pandas use NumPy's generator; `uuid` and `secrets` use the operating system."""


def reseed() -> None:
    """Seed each inherited generator from the operating system, before the program is unpickled, which may set seeds.

    A module that is imported later seeds itself.
    """
    for name in _GENERATORS:
        module = sys.modules.get(name)
        if module is not None:
            module.seed()
