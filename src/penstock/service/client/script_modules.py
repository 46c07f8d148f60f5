"""The modules that a job's script has imported from its own folder.

On one machine, workers find them by the driver's import path. Executors elsewhere see none of its folders, so these
modules travel with the job; the program names everything else that must travel (docs/deploy/code-and-data.md).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType


def script_modules(modules: Mapping[str, ModuleType] | None = None) -> list[Path]:
    """Return the files of imported modules and the folders of imported packages next to `__main__`, in order.

    `modules`: `sys.modules`. A notebook or an interactive session has no folder, and so returns none.
    """
    modules = sys.modules if modules is None else modules
    folder = _folder_of(modules.get("__main__"))
    if folder is None:
        return []
    found = {
        path
        for name, module in list(modules.items())
        if "." not in name and name != "__main__"
        for path in _places(module)
        if path.parent == folder and path.exists()
    }
    return sorted(found)


def import_folders() -> list[str]:
    """Return the folders of this process's import path, for processes on the same machine."""
    return [str(Path(entry).absolute()) for entry in sys.path if Path(entry).is_dir()]


def _folder_of(main: ModuleType | None) -> Path | None:
    """Return the folder that Python has put first on the path for this script."""
    file = getattr(main, "__file__", None)
    if file is None:
        return None
    folder = Path(file).resolve().parent
    # `python -m package.job` imports from the parent of the outermost package.
    package = getattr(main, "__package__", None) or ""
    for _ in filter(None, package.split(".")):
        folder = folder.parent
    return folder


def _places(module: ModuleType) -> Iterator[Path]:
    """Return where a module was found: its file, or its folder if it is a package."""
    folders = getattr(module, "__path__", None)
    if folders is not None:
        yield from (Path(folder).resolve() for folder in list(folders))
    elif isinstance(getattr(module, "__file__", None), str):
        assert module.__file__ is not None
        yield Path(module.__file__).resolve()
