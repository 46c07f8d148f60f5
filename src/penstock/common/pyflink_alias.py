"""An import hook that answers to `pyflink` with penstock's modules, so that a PyFlink program runs unchanged.

`pyflink.x.y` is `penstock.x.y`: the same module object, hence the same classes. The driver installs the hook before it
runs the program, and a worker before it loads the program's script, which imports `pyflink` there again.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_FROM = "pyflink"
_TO = "penstock"


class _SameModule(Loader):
    """Gives a module under a second name, and leaves what it says of itself as it was."""

    def __init__(self, name: str) -> None:
        self._module = importlib.import_module(name)
        self._spec = self._module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has put the spec of the second name here.
        module.__spec__ = self._spec


class PyFlinkFinder(MetaPathFinder):
    """Finds `pyflink` and what is below it, before a PyFlink that may be installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module of penstock by that name; None for other packages, ModuleNotFoundError if there is none."""
        if fullname != _FROM and not fullname.startswith(f"{_FROM}."):
            return None
        name = _TO + fullname.removeprefix(_FROM)
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(f"penstock has no {name} to stand for {fullname}", name=fullname)
        return ModuleSpec(fullname, _SameModule(name))


def install() -> None:
    """From now on, in this process, `import pyflink` gives penstock. Twice is as good as once."""
    if not is_installed():
        sys.meta_path.insert(0, PyFlinkFinder())


def is_installed() -> bool:
    """Whether `install` was called: what the driver tells its workers."""
    return any(isinstance(finder, PyFlinkFinder) for finder in sys.meta_path)
