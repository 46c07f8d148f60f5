"""When all rows of a cached table are loaded again: `lookup.full-cache.*`.

Source: Flink's LookupOptions, PeriodicCacheReloadTrigger and TimedCacheReloadTrigger.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from enum import Enum

from penstock.common.config_options import option
from penstock.common.config_values import DurationType, EnumType, IntegerType, TextType
from penstock.table.connectors.table_options import TableOptions


class ReloadStrategy(Enum):
    """By an interval, or at a time of the day."""

    PERIODIC = "PERIODIC"
    TIMED = "TIMED"


class ScheduleMode(Enum):
    """Whether an interval begins when a reload ends, or when it begins."""

    FIXED_DELAY = "FIXED_DELAY"
    FIXED_RATE = "FIXED_RATE"


STRATEGY = option("lookup.full-cache.reload-strategy", EnumType(ReloadStrategy), ReloadStrategy.PERIODIC)
INTERVAL = option("lookup.full-cache.periodic-reload.interval", DurationType(), None)
MODE = option("lookup.full-cache.periodic-reload.schedule-mode", EnumType(ScheduleMode), ScheduleMode.FIXED_DELAY)
ISO_TIME = option("lookup.full-cache.timed-reload.iso-time", TextType(), None)
DAYS = option("lookup.full-cache.timed-reload.interval-in-days", IntegerType(least=1), 1)
RELOAD_OPTIONS = (STRATEGY, INTERVAL, MODE, ISO_TIME, DAYS)
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Reloads:
    """When rows are loaded again. `at`: a time of the day, without a zone that of this machine; None: by intervals."""

    interval_ms: int
    has_fixed_rate: bool = False
    at: time | None = None

    def next_ms(self, due_ms: float | None, began_ms: int, ended_ms: int) -> int:
        """Return when the next load is due. `due_ms`: when the last one was; None: it was the first one."""
        if self.at is not None:
            return self._next_day_ms(began_ms, is_first=due_ms is None)
        if not self.has_fixed_rate:
            return ended_ms + self.interval_ms
        # Loads that were due while nothing was looked up are left out.
        first = began_ms if due_ms is None else int(due_ms)
        return first + ((ended_ms - first) // self.interval_ms + 1) * self.interval_ms

    def _next_day_ms(self, now_ms: int, *, is_first: bool) -> int:
        assert self.at is not None
        now = datetime.fromtimestamp(now_ms / 1000, self.at.tzinfo).astimezone(self.at.tzinfo)
        then = now.replace(hour=self.at.hour, minute=self.at.minute, second=self.at.second, microsecond=0)
        if then <= now:
            then += timedelta(days=1)
        days = 1 if is_first else self.interval_ms // _DAY_MS
        return round((then + timedelta(days=days - 1)).timestamp() * 1000)


def reloads_of(options: TableOptions) -> Reloads:
    """Return when the rows of a table are loaded again. Raises SqlError if the options do not say it."""
    if options.get(STRATEGY) is ReloadStrategy.TIMED:
        text = options.required(ISO_TIME)
        try:
            at = time.fromisoformat(text)
        except ValueError:
            raise options.error(f"{ISO_TIME.key} must be a time such as 10:15 or 10:15+07:00, got {text!r}") from None
        return Reloads(options.get(DAYS) * _DAY_MS, at=at)
    interval_ms = options.required(INTERVAL)
    if interval_ms <= 0:
        raise options.error(f"{INTERVAL.key} must be longer than nothing, got {interval_ms} ms")
    return Reloads(interval_ms, has_fixed_rate=options.get(MODE) is ScheduleMode.FIXED_RATE)
