"""The plan with which whoever starts a job again begins, and the slots that the job holds for it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.common.functions.user_calls import RAISED
from penstock.engine.plan.job_graph import JobGraph

_log = logging.getLogger(__name__)


class KeptPlan:
    """Of a job that began with `graph`. `keep` keeps another plan, and may raise; `hold` holds so many slots.

    With a plan that needs more slots than it may hold a job can't be started again: so fewer are held when the plan is
    kept, and a plan with more is kept when these are held. Source: Flink, `Dispatcher.updateJobResourceRequirements`,
    which stores them first.
    """

    def __init__(self, graph: JobGraph, keep: Callable[[JobGraph], object], hold: Callable[[int], object]) -> None:
        self._parallelism = _parallelism_of(graph)
        self._slots = graph.slots
        self._keep = keep
        self._hold = hold

    def begins(self, graph: JobGraph) -> None:
        """An attempt with this plan is about to begin. Raises what `hold` raises."""
        if _parallelism_of(graph) == self._parallelism:
            self._hold(self._slots)
            return
        if graph.slots > self._slots:
            self._hold(graph.slots)
        if not self._kept(graph):
            # Those of the plan that is kept, too.
            self._hold(max(self._slots, graph.slots))
            return
        self._parallelism, self._slots = _parallelism_of(graph), graph.slots
        self._hold(graph.slots)

    def _kept(self, graph: JobGraph) -> bool:
        try:
            self._keep(graph)
        except RAISED as error:
            _log.error("if it is started again, the job has the parallelism of before, as no other is kept: %s", error)
            return False
        return True


def _parallelism_of(graph: JobGraph) -> dict[int, int]:
    return {vertex.id: vertex.parallelism for vertex in graph.vertices}
