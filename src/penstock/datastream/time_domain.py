"""Time domains, at PyFlink's module path."""

from penstock.runtime.time.timers import TimeDomain

__all__ = ["TimeDomain"]
