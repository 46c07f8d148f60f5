"""Time domains, at PyFlink's module path."""

from penstock.api.timers import TimeDomain
from penstock.common.doors.door import publish

__all__ = ["TimeDomain"]

publish(__name__, __all__)
