"""The stacks of all threads of this process, or of a worker. Flink: ThreadDumpInfo."""

from __future__ import annotations

import sys
import threading
import traceback

from penstock.engine.runtime.task.events import SampledStack


def thread_infos() -> list[dict[str, str]]:
    """Return the thread dump of this process."""
    frames = sys._current_frames()
    return [
        {
            "threadName": thread.name,
            "stringifiedThreadInfo": f'"{thread.name}" Id={thread.ident}\n'
            + "".join(traceback.format_stack(frames[thread.ident])),
        }
        for thread in threading.enumerate()
        if thread.ident in frames
    ]


def of_worker(stack: SampledStack) -> dict[str, str]:
    """Format a thread of a worker, outermost frame first, like Python."""
    state = "runs" if stack.on_cpu else "waits"
    frames = "".join(f"  at {frame}\n" for frame in stack.frames)
    return {"threadName": stack.thread, "stringifiedThreadInfo": f'"{stack.thread}" {state}\n{frames}'}
