"""Flame graphs of a job's vertices: samples are taken on demand, and kept for a while.

Requests never wait for samples: the first one finds none, and those after a `refresh-interval` find the old ones while
new ones are taken. Source: Flink's VertexThreadInfoTracker, JobVertexFlameGraph.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, NamedTuple

from penstock.common.configuration import Configuration
from penstock.common.configuration import rest_options as options
from penstock.common.time.wall_clock import now_ms
from penstock.engine.runtime.task.events import SampledStack, StacksSampled

Sample = Callable[[int, int, int, int], Future[list[StacksSampled]]]
"""Take samples of a vertex: their number, the time between two of them (ms), and the most frames of one."""
TERMINATED, DISABLED, WAITING = -1, -2, -3
"""Codes in place of the time of a flame graph that is missing."""


class Stacks(NamedTuple):
    """Samples of a vertex's subtasks, and when they arrived (ms)."""

    taken_ms: int
    of_subtasks: list[StacksSampled]


class FlameGraphs:
    """The flame graphs of one job. `monotonic_ms`: the clock by which samples age."""

    def __init__(
        self, configuration: Configuration, monotonic_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000
    ) -> None:
        self.enabled = configuration.get(options.FLAME_GRAPH_ENABLED)
        self._samples = configuration.get(options.FLAME_GRAPH_NUM_SAMPLES)
        self._delay_ms = configuration.get(options.FLAME_GRAPH_DELAY_BETWEEN_SAMPLES)
        self._depth = configuration.get(options.FLAME_GRAPH_STACK_DEPTH)
        self._refresh_ms = configuration.get(options.FLAME_GRAPH_REFRESH_INTERVAL)
        self._cleanup_ms = configuration.get(options.FLAME_GRAPH_CLEANUP_INTERVAL)
        self._monotonic_ms = monotonic_ms
        self._kept: dict[int, _Kept] = {}
        """Samples by vertex."""
        self._lock = threading.Lock()

    def newest(self, vertex: int, sample: Sample) -> Stacks | None:
        """Return the newest samples of a vertex, or None. Calls `sample` for new ones if these are old."""
        now_ms = self._monotonic_ms()
        with self._lock:
            self._kept = {
                other: kept for other, kept in self._kept.items() if kept.looked_ms + self._cleanup_ms > now_ms
            }
            kept = self._kept.setdefault(vertex, _Kept())
            kept.looked_ms = now_ms
            if kept.is_asked or now_ms < kept.until_ms:
                return kept.stacks
            kept.is_asked = True
        asked = sample(vertex, self._samples, self._delay_ms, self._depth)
        asked.add_done_callback(lambda done: self._answered(kept, done))
        return kept.stacks

    def _answered(self, kept: _Kept, done: Future[list[StacksSampled]]) -> None:
        with self._lock:
            kept.is_asked = False
            if done.exception() is None:
                kept.until_ms = self._monotonic_ms() + self._refresh_ms
                kept.stacks = Stacks(now_ms(), done.result())


class _Kept:
    """The samples of one vertex."""

    def __init__(self) -> None:
        self.stacks: Stacks | None = None
        self.until_ms = 0
        """When they become too old."""
        self.looked_ms = 0
        self.is_asked = False


def tree(stacks: Iterable[SampledStack]) -> dict[str, Any]:
    """Merge all stacks into the tree that Flink's clients draw: each frame with the number of samples in it."""
    root = _node("root")
    below: dict[tuple[int, str], dict[str, Any]] = {}
    for stack in stacks:
        node = root
        node["value"] += stack.count
        for name in stack.frames:
            place = id(node), name
            child = below.get(place)
            if child is None:
                child = below[place] = _node(name)
                node["children"].append(child)
            child["value"] += stack.count
            node = child
    return root


def _node(name: str) -> dict[str, Any]:
    return {"name": name, "value": 0, "children": []}
