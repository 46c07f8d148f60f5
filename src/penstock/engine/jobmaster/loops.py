"""End a loop when its inputs have ended and it has no chunks or elements in flight, by counting them.

The JobMaster probes all tasks of a loop in rounds. A task answers when it is idle (`engine/runtime/task/task.py`), with
the number of chunks and elements it has sent and received within the loop, barriers not included. Answers arrive at
different times, so one round proves nothing: a chunk may pass a task after its answer. But if the number sent by the
second of two rounds equals the number received by the first, everything sent had arrived between the rounds while all
tasks were idle, so nothing is in flight. Source: F. Mattern, "Algorithms for distributed termination detection" (1987),
the four counter method.

    event                                     next
    all tasks of the region run               round 1 begins
    all have answered: sent in this round     the loop ends: its heads accept no more feedback, and end
      = received in the last one
    all have answered, otherwise              the next round: at once after round 1, then after `_PAUSE_MS`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.common.time.earliest import earliest
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.task.events import ControlEvent, EndLoop, LoopQuiet, ProbeLoop

_PAUSE_MS = 10
Send = Callable[[int, int, ControlEvent], None]


class LoopEnd:
    """Detect the end of one loop in one attempt. `heads`: its tasks with the head of an iteration."""

    def __init__(self, tasks: Sequence[SubtaskId], heads: Sequence[SubtaskId], send: Send) -> None:
        self.tasks = tasks
        self.has_ended = False
        self.begins_ms: int | None = None
        """When the next round begins, or None during a round."""
        self._heads = heads
        self._send = send
        self._round = 0
        self._answers: dict[SubtaskId, LoopQuiet] = {}
        self._received_before: int | None = None

    def tick(self, now_ms: int) -> None:
        """Begin a round if one is due."""
        if self.begins_ms is not None and now_ms >= self.begins_ms:
            self.begin()

    def begin(self) -> None:
        """Begin a round. All tasks have to be running."""
        self.begins_ms = None
        self._round += 1
        self._answers.clear()
        for vertex, subtask in self.tasks:
            self._send(vertex, subtask, ProbeLoop(self._round))

    def quiet(self, answer: LoopQuiet, now_ms: int) -> None:
        """Handle a task's answer."""
        if answer.round != self._round or self.has_ended:
            return
        self._answers[SubtaskId(answer.vertex, answer.subtask)] = answer
        if len(self._answers) < len(self.tasks):
            return
        sent = sum(one.sent for one in self._answers.values())
        if sent == self._received_before:
            self.has_ended = True
            for vertex, subtask in self._heads:
                self._send(vertex, subtask, EndLoop())
            return
        is_first = self._received_before is None
        self._received_before = sum(one.received for one in self._answers.values())
        if is_first:
            self.begin()
        else:
            self.begins_ms = now_ms + _PAUSE_MS


class Loops:
    """All loops of an attempt of a region. `vertices`: those of the region."""

    def __init__(self, graph: JobGraph, vertices: frozenset[int], send: Send) -> None:
        heads = {edge.target for edge in graph.edges if edge.feedback}
        self._loops = []
        # A structured iteration decides by itself when to end.
        structured = graph.structured_loops
        for loop in graph.loops:
            if loop <= vertices and loop not in structured:
                tasks = [
                    SubtaskId(vertex, subtask)
                    for vertex in sorted(loop)
                    for subtask in range(graph.vertices[vertex].parallelism)
                ]
                self._loops.append(LoopEnd(tasks, [task for task in tasks if task.vertex in heads], send))
        self._of_vertex = {task.vertex: loop for loop in self._loops for task in loop.tasks}

    def begin(self) -> None:
        """Begin the first rounds: all tasks of the region are running."""
        for loop in self._loops:
            loop.begin()

    def quiet(self, answer: LoopQuiet, now_ms: int) -> None:
        """Handle the answer of a loop's task."""
        self._of_vertex[answer.vertex].quiet(answer, now_ms)

    def tick(self, now_ms: int) -> None:
        """Begin rounds that are due."""
        for loop in self._loops:
            loop.tick(now_ms)

    def wake_at_ms(self) -> int | None:
        """Return when the next `tick` is due, or None."""
        return earliest(*[loop.begins_ms for loop in self._loops])
