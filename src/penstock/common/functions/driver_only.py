"""Objects that build a program and exist only in the driver."""

from __future__ import annotations

from typing import Any, NoReturn


class DriverOnly:
    """Base class of objects that can't be pickled, because they have no use on a worker.

    Source: PyFlink, whose environments and streams represent objects of the client's JVM and can't be pickled.
    """

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} builds the program and exists only in the driver")
