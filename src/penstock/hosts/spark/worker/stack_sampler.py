"""Where a slot's thread is, found by a thread that looks again and again: the samples of a flame graph.

And, for a thread dump, where all threads of its process are.

The one that looks can do so only when it has the interpreter's lock. So it finds the others where they give it up:
between two instructions of Python, or in a call that waits, or computes, without it. A thread that the system runs, or
would run if there were a processor for it, is *on CPU*; one that waits for something is not. The lock that a thread had
to give up to be looked at is free again when the system is asked. Where it does not tell (macOS), all are on CPU.

Vertices of one level, and slots of one worker, share a thread. What it does for another task is left out; that it
waits for input, or for room in its output, belongs to all of them. Source: Flink docs, "Flame Graphs".
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from penstock.common.job_threads import start_thread
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.task.events import SampledStack, SampleStacks
from penstock.engine.runtime.task.task import Task

_RUNS = b"R"
"""Source: proc(5), /proc/pid/stat, the third field."""

Answer = Callable[[int, int, list[SampledStack]], None]
"""Given the vertex, the number of the question, and what was found; by the thread that looks."""


class StackSampler:
    """Of the slot `index`, whose tasks run in the thread that makes this. `answer` is called for each question."""

    def __init__(self, index: int, answer: Answer) -> None:
        self._index = index
        self._answer = answer
        self._thread = threading.get_ident()
        self._native = threading.get_native_id()

    def begin(self, vertex: int, question: SampleStacks) -> None:
        """Begin to sample. Any thread may ask."""
        # What fails here concerns the flame graph alone: nobody answers, and the one who asks waits for no longer.
        start_thread("penstock-stacks", lambda: self._sample(vertex, question), lambda error: None)

    def _sample(self, vertex: int, question: SampleStacks) -> None:
        if question.all_threads:
            self._answer(vertex, question.sample, _of_all_threads(question.depth))
            return
        found: Counter[tuple[tuple[str, ...], bool]] = Counter()
        for _ in range(question.samples):
            time.sleep(question.delay_ms / 1000)
            frame = sys._current_frames()[self._thread]
            # All that is read of it, before the lock is given up.
            names, of_task = tuple(_names(frame, question.depth)), _task_of(frame)
            if of_task in (None, (vertex, self._index)):
                found[names, _is_on_cpu(self._native)] += 1
        stacks = [SampledStack(list(frames), on_cpu, count) for (frames, on_cpu), count in found.items()]
        self._answer(vertex, question.sample, stacks)


def _of_all_threads(depth: int) -> list[SampledStack]:
    """Of this process, but for the one that looks. Threads that Python did not start are known by their number."""
    # All that is read of the frames, before the lock is given up.
    found = {thread: _names(frame, depth) for thread, frame in sys._current_frames().items()}
    del found[threading.get_ident()]
    known = {thread.ident: thread for thread in threading.enumerate()}
    stacks = []
    for ident, names in found.items():
        thread = known.get(ident)
        native = thread.native_id if thread is not None else None
        name = thread.name if thread is not None else f"thread {ident}"
        stacks.append(SampledStack(names, native is None or _is_on_cpu(native), 1, name))
    return stacks


def _is_on_cpu(native: int) -> bool:
    try:
        state = Path(f"/proc/self/task/{native}/stat").read_bytes()
    except OSError:
        return True
    # Behind the name of the program, which may have spaces and brackets.
    return state.rpartition(b")")[2].split()[0] == _RUNS


def _frames(innermost: FrameType) -> Iterator[FrameType]:
    frame: FrameType | None = innermost
    while frame is not None:
        yield frame
        frame = frame.f_back


def _task_of(innermost: FrameType) -> SubtaskId | None:
    """Return the subtask that a thread works for, or None."""
    for frame in _frames(innermost):
        if frame.f_globals.get("__name__") == Task.__module__:
            task = frame.f_locals.get("self")
            if isinstance(task, Task):
                return task.id
    return None


def _names(innermost: FrameType, depth: int) -> list[str]:
    """Of the innermost frames, outermost first."""
    names = [
        f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}:{frame.f_lineno}"
        for frame, _ in zip(_frames(innermost), range(depth), strict=False)
    ]
    return names[::-1]
