"""What a process function may ask of time, under PyFlink's module path."""

from penstock.runtime.time.timers import TimerService

__all__ = ["TimerService"]
