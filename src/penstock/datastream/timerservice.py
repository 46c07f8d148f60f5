"""The timer service, at PyFlink's module path."""

from penstock.runtime.time.timers import TimerService

__all__ = ["TimerService"]
