"""PyFlink's module path of `DataTypes`, which describe columns of file formats. There is no Table API."""

from typing import Any

from penstock.common.doors import pyflink_names
from penstock.common.doors.door import publish
from penstock.table.types import DataTypes

__all__ = ["DataTypes"]


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # The import system drops the text of an AttributeError.
    raise ImportError(f"penstock has no {name} in {__name__}: {pyflink_names.reason('pyflink.table')}", name=__name__)


publish(__name__, __all__)
