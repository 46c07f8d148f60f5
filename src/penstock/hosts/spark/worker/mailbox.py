"""How long messages of the job master wait until the slot's thread handles them. Flink: TaskIOMetricGroup, mailbox."""

from __future__ import annotations

from collections import deque

_LATENCIES_MOST = 60
"""As Flink keeps."""


class Mailbox:
    """Of one slot, whose tasks share it. Written by its thread, read by any."""

    def __init__(self) -> None:
        self._handled = 0
        self._latencies_ns: deque[int] = deque(maxlen=_LATENCIES_MOST)

    def handled(self, arrived_ns: int, now_ns: int) -> None:
        """A message that has arrived then is handled now."""
        self._handled += 1
        self._latencies_ns.append(max(0, now_ns - arrived_ns))

    def figures(self, waiting: int) -> dict[str, int | float]:
        """Fields of a TaskReport. `waiting`: how many messages wait now."""
        latencies = tuple(self._latencies_ns)
        return {
            "mails": self._handled,
            "mails_waiting": waiting,
            "mail_latency_mean_ms": sum(latencies) / max(1, len(latencies)) / 1e6,
            "mail_latency_max_ms": max(latencies, default=0) / 1e6,
        }
