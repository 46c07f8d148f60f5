"""The end of a loop: when its inputs have ended and nothing is in flight in it any more. It is counted, not guessed.

All tasks of a loop are asked, round by round. Each answers when it is at rest (`engine/runtime/task/task.py`),
with how many chunks and elements it has sent and received within the loop, barriers not included. Answers come at
different times, so one round shows nothing: something may have passed behind the question. But if by the second of two
rounds no more was sent than had been received by the first, then all that was ever sent had arrived between the two,
and all tasks were at rest: nothing can move any more. Source: F. Mattern, "Algorithms for distributed termination
detection" (1987), the four counter method.

    event                                     next
    all tasks of the region run               round 1 begins
    all have answered: sent in this round     the loop ends: its heads take no feedback any more, and end
      = received in the last one
    all have answered, otherwise              the next round: at once after round 1, then each `_PAUSE_MS`
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
    """Of one loop in one attempt: its tasks, and those of them that have the head of an iteration."""

    def __init__(self, tasks: Sequence[SubtaskId], heads: Sequence[SubtaskId], send: Send) -> None:
        self.tasks = tasks
        self.has_ended = False
        self.begins_ms: int | None = None
        """When the next round begins; None: not before the present one is over."""
        self._heads = heads
        self._send = send
        self._round = 0
        self._answers: dict[SubtaskId, LoopQuiet] = {}
        self._received_before: int | None = None

    def tick(self, now_ms: int) -> None:
        """Time has passed: begin a round if one is due."""
        if self.begins_ms is not None and now_ms >= self.begins_ms:
            self.begin()

    def begin(self) -> None:
        """Begin a round: all tasks are running."""
        self.begins_ms = None
        self._round += 1
        self._answers.clear()
        for vertex, subtask in self.tasks:
            self._send(vertex, subtask, ProbeLoop(self._round))

    def quiet(self, answer: LoopQuiet, now_ms: int) -> None:
        """A task has answered."""
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
    """Those of an attempt of a region, with the vertices of that region."""

    def __init__(self, graph: JobGraph, vertices: frozenset[int], send: Send) -> None:
        heads = {edge.target for edge in graph.edges if edge.feedback}
        self._loops = []
        for loop in graph.loops:
            if loop <= vertices:
                tasks = [
                    SubtaskId(vertex, subtask)
                    for vertex in sorted(loop)
                    for subtask in range(graph.vertices[vertex].parallelism)
                ]
                self._loops.append(LoopEnd(tasks, [task for task in tasks if task.vertex in heads], send))
        self._of_vertex = {task.vertex: loop for loop in self._loops for task in loop.tasks}

    def begin(self) -> None:
        """All tasks of the region are running."""
        for loop in self._loops:
            loop.begin()

    def quiet(self, answer: LoopQuiet, now_ms: int) -> None:
        """A task of a loop has answered."""
        self._of_vertex[answer.vertex].quiet(answer, now_ms)

    def tick(self, now_ms: int) -> None:
        """Time has passed."""
        for loop in self._loops:
            loop.tick(now_ms)

    def wake_at_ms(self) -> int | None:
        """When `tick` has something to do."""
        return earliest(*[loop.begins_ms for loop in self._loops])
