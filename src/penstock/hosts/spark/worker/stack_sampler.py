"""Sample the stack of a slot's thread for flame graphs, and the stacks of all threads for thread dumps.

A thread samples repeatedly. It needs the interpreter's lock, so it finds the other threads where they release it:
between two instructions of Python, or in a call that waits or computes without the lock. A thread is *on CPU* if the
system runs it, or would run it if a processor were free, and *off CPU* if it waits. A thread that has released the lock
for the sample has it again when the state is read. If the system does not report states (macOS), all are on CPU.

Vertices of one level, and slots of one worker, share a thread. Samples of work for another task are omitted; waits for
input, or for room in the output, count for all tasks. Source: Flink docs, "Flame Graphs".
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
"""Called by the sampling thread with the vertex, the number of the request, and the stacks."""


class StackSampler:
    """Sample the stacks of the slot `index`, whose tasks run in the thread that creates this object.

    `answer` is called for each request.
    """

    def __init__(self, index: int, answer: Answer) -> None:
        self._index = index
        self._answer = answer
        self._thread = threading.get_ident()
        self._native = threading.get_native_id()

    def begin(self, vertex: int, request: SampleStacks) -> None:
        """Start to sample, on another thread. Any thread may call this."""
        # A failure concerns only the flame graph: without an answer, the request times out.
        start_thread("penstock-stacks", lambda: self._sample(vertex, request), lambda error: None)

    def _sample(self, vertex: int, request: SampleStacks) -> None:
        if request.all_threads:
            self._answer(vertex, request.sample, _dump_threads(request.depth))
            return
        found: Counter[tuple[tuple[str, ...], bool]] = Counter()
        for _ in range(request.samples):
            time.sleep(request.delay_ms / 1000)
            frame = sys._current_frames()[self._thread]
            # Read everything from the frame before this thread releases the lock.
            names, task = tuple(_names(frame, request.depth)), _task_of(frame)
            if task in (None, (vertex, self._index)):
                found[names, _is_on_cpu(self._native)] += 1
        stacks = [SampledStack(list(frames), on_cpu, count) for (frames, on_cpu), count in found.items()]
        self._answer(vertex, request.sample, stacks)


def _dump_threads(depth: int) -> list[SampledStack]:
    """Return the stacks of all threads except this one. Threads that Python did not start are named by their number."""
    # Read everything from the frames before this thread releases the lock.
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
    # After the name of the program, which may contain spaces and brackets.
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
    """Return the names of the `depth` innermost frames, outermost first."""
    names = [
        f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}:{frame.f_lineno}"
        for frame, _ in zip(_frames(innermost), range(depth), strict=False)
    ]
    return names[::-1]
