"""What a program is built with. It stays in the driver: functions run elsewhere."""

from __future__ import annotations

from typing import Any, NoReturn


class DriverOnly:
    """Base of what can't be sent to workers, since it would be of no use there.

    Source: PyFlink, whose environments and streams stand for objects of the client's JVM, and can't be pickled.
    """

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} builds the program and exists in the driver only")
