"""The two kinds of time, under PyFlink's module path."""

from penstock.runtime.timers import TimeDomain

__all__ = ["TimeDomain"]
