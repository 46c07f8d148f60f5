"""An import hook that maps `pyflink` to penstock's modules, so that a PyFlink program runs unchanged.

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

from penstock.common.doors import pyflink_names

_FROM = "pyflink"
_TO = "penstock"


class _SameModule(Loader):
    """Returns an existing module under a second name and leaves its attributes unchanged."""

    def __init__(self, name: str) -> None:
        self._module = importlib.import_module(name)
        self._spec = self._module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has replaced __spec__ by the spec of the second name: restore it.
        module.__spec__ = self._spec


class PyFlinkFinder(MetaPathFinder):
    """Finds `pyflink` and its submodules, before an installed PyFlink."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of penstock's module, or None for other packages.

        Raises ModuleNotFoundError if penstock has no such module.
        """
        if fullname != _FROM and not fullname.startswith(f"{_FROM}."):
            return None
        name = _TO + fullname.removeprefix(_FROM)
        if not _is_there(name):
            reason = pyflink_names.reason(fullname)
            advice = "" if reason is None else f": {reason}"
            raise ModuleNotFoundError(f"penstock has no {name} to stand for {fullname}{advice}", name=fullname)
        return ModuleSpec(fullname, _SameModule(name))


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def install() -> None:
    """Make `import pyflink` return penstock in this process. Idempotent."""
    if not is_installed():
        sys.meta_path.insert(0, PyFlinkFinder())


def is_installed() -> bool:
    """Return whether `install` was called; the driver forwards this to its workers."""
    return any(isinstance(finder, PyFlinkFinder) for finder in sys.meta_path)
