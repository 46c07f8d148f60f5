"""What the script defines under which names, for a worker's `__main__`, where pickles look for it.

Classes are set into `__main__` (`engine/plan/pickling.py`). Functions are loaded when a pickle first asks for one: most
are not values, and some import modules that only the driver has.
"""

from __future__ import annotations

import dataclasses
import io
import sys
from typing import Any

from penstock.common.errors import ProgramError
from penstock.common.functions.script_functions import SCRIPT, is_function
from penstock.engine.plan import program_pickler

_BYTES_MAX = 1_000_000


@dataclasses.dataclass
class ScriptNames:
    """Looks up what a module lacks (PEP 562): pickle asks the module for functions and classes of values."""

    functions: dict[str, bytes]
    left_out: dict[str, str]
    """Why a class of the script could not be pickled, by name."""
    _loaded: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __call__(self, name: str) -> Any:
        if name in self.functions:
            if name not in self._loaded:
                self._loaded[name] = program_pickler.loads(self.functions[name], f"the script's function '{name}'")
            return self._loaded[name]
        if name not in self.left_out:
            raise AttributeError(f"module '__main__' has no attribute '{name}'")
        # pickle would replace an AttributeError by one without a reason.
        raise ProgramError(
            f"class '{name}' of the job's script is not known here, since it could not be pickled in the driver: "
            f"{self.left_out[name]}. Keep what is open or bound to a process out of the class, or put the class into "
            "a module that workers can import (env.add_python_file sends it)"
        )

    def install(self) -> None:
        """Have `__main__` of this process ask this object, and no earlier one."""
        names = vars(sys.modules[SCRIPT])
        if self.functions or self.left_out:
            names["__getattr__"] = self
        elif isinstance(names.get("__getattr__"), ScriptNames):
            del names["__getattr__"]


def dumped_functions(defined: dict[str, Any]) -> dict[str, bytes]:
    """The pickles of the script's functions, with what they refer to, as far as that can be sent and is small."""
    received = defined.get("__getattr__")
    dumped = dict(received.functions) if isinstance(received, ScriptNames) else {}
    left = _BYTES_MAX
    for name, function in defined.items():
        if is_function(function) and function.__qualname__ == name:
            with _LimitedFile(left) as file:
                try:
                    program_pickler.ProgramPickler(file).dump(function)
                except Exception:
                    continue
                dumped[name] = file.getvalue()
            left -= len(dumped[name])
    return dumped


class _LimitedFile(io.BytesIO):
    """A script may refer to gigabytes: their pickle ends where it becomes too large."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__()
        self._left = bytes_max

    def write(self, data: Any) -> int:
        self._left -= memoryview(data).nbytes
        if self._left < 0:
            raise BufferError(f"larger than {_BYTES_MAX} bytes")
        return super().write(data)
