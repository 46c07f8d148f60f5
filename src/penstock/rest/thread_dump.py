"""Where each thread of this process is."""

from __future__ import annotations

import sys
import threading
import traceback


def thread_infos() -> list[dict[str, str]]:
    """Flink: ThreadDumpInfo."""
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
