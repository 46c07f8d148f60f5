"""The figures of a job over time: rates, event time, load and checkpoints. Memory does not grow with the job's age."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

import msgspec

_EVERY_S = 2.0
"""Time (seconds) between two samples. The rates of a sample cover the five seconds before it."""
_RECENT_MAX = 300
"""Most recent samples kept: ten minutes."""
_WHOLE_MAX = 400
"""Most samples of the whole time, an even number. At this number, each two neighbors become one."""


class JobSample(msgspec.Struct, frozen=True, rename="kebab", kw_only=True):
    """The figures of a job at one moment, or over the time since the previous sample."""

    timestamp: int
    """Milliseconds since 1970."""
    records_in_per_second: float
    """Records that sources emitted."""
    records_out_per_second: float
    """Records that reached sinks."""
    watermark: int | None
    """The lowest event time at a sink (ms), or null without event time."""
    busy: tuple[int, ...]
    """Percent of the time of the busiest subtask of each vertex, in the order of the job's vertices."""
    back_pressured: tuple[int, ...]
    """Percent of the time of the subtask of each vertex that waited longest for room in its output."""
    restarts: int
    """Restarts since the job was submitted."""
    failed_checkpoints: int
    """Failed checkpoints since the job was submitted."""
    checkpoint_duration: int | None
    """Duration of the slowest checkpoint that completed since the previous sample (ms), or null without one."""
    checkpoint_size: int | None
    """Whole size of the newest completed checkpoint (bytes), or null without one."""


class JobHistory:
    """The samples of one job: the newest ones, and fewer for its whole time."""

    def __init__(self) -> None:
        self._recent: deque[JobSample] = deque(maxlen=_RECENT_MAX)
        self._whole: list[JobSample] = []
        self._last: list[JobSample] = []
        """Samples that will become the next one of the whole time."""
        self._merged = 1
        """How many samples become one of the whole time."""
        self._due_s = 0.0
        self._lock = threading.Lock()

    def is_due(self, now_s: float) -> bool:
        """Return whether to add a sample now. `now_s`: of a clock that is never set back."""
        return now_s >= self._due_s

    def add(self, sample: JobSample, now_s: float) -> None:
        """Add a sample."""
        with self._lock:
            self._due_s = now_s + _EVERY_S
            self._recent.append(sample)
            self._last.append(sample)
            if len(self._last) < self._merged:
                return
            self._whole.append(merged(self._last))
            self._last = []
            if len(self._whole) >= _WHOLE_MAX:
                self._whole = [merged(pair) for pair in zip(self._whole[::2], self._whole[1::2], strict=True)]
                self._merged *= 2

    @property
    def newest_ms(self) -> int:
        """The time of the newest sample; -1 before the first one."""
        with self._lock:
            return self._recent[-1].timestamp if self._recent else -1

    def recent(self) -> list[JobSample]:
        """Return the samples of the last ten minutes, oldest first."""
        with self._lock:
            return list(self._recent)

    def whole(self) -> list[JobSample]:
        """Return samples from the job's beginning on, oldest first."""
        with self._lock:
            return [*self._whole, merged(self._last)] if self._last else list(self._whole)


def merged(samples: Sequence[JobSample]) -> JobSample:
    """Return one sample for several: means of rates and loads, and the slowest checkpoint."""
    last = samples[-1]
    durations = [one.checkpoint_duration for one in samples if one.checkpoint_duration is not None]
    return JobSample(
        timestamp=last.timestamp,
        records_in_per_second=_mean([one.records_in_per_second for one in samples]),
        records_out_per_second=_mean([one.records_out_per_second for one in samples]),
        watermark=last.watermark,
        busy=_means([one.busy for one in samples]),
        back_pressured=_means([one.back_pressured for one in samples]),
        restarts=last.restarts,
        failed_checkpoints=last.failed_checkpoints,
        checkpoint_duration=max(durations, default=None),
        checkpoint_size=last.checkpoint_size,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _means(shares: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(round(_mean(of_vertex)) for of_vertex in zip(*shares, strict=True))
