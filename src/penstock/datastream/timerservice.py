"""The timer service, at PyFlink's module path."""

from penstock.api.timers import TimerService
from penstock.common.doors.door import publish

__all__ = ["TimerService"]

publish(__name__, __all__)
