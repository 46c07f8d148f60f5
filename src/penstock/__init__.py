"""penstock: Apache Flink's programming model and state management for Python, on Apache Spark."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__version__ = "0.1.0"


class _LeftOut(MetaPathFinder):
    """Asked last for a module: whoever writes `penstock.` for `pyflink.` learns why one is missing, and what to do."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.startswith("penstock."):
            # Not above: this is for the error alone.
            from penstock.common.doors import pyflink_names

            reason = pyflink_names.reason(fullname.replace("penstock", "pyflink", 1))
            if reason is not None:
                raise ModuleNotFoundError(f"penstock has no module {fullname}: {reason}", name=fullname)
        return None


sys.meta_path.append(_LeftOut())
