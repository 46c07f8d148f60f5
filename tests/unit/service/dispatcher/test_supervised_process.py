"""The process of a job: what the dispatcher hears of it, and that nothing of it stays."""

from __future__ import annotations

import os
import queue
import select
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

import penstock
from penstock.engine.plan import program_pickler
from penstock.engine.plan.pickling import dump_main_classes
from penstock.hosts.spark.internals.shared_context import JvmAddress
from penstock.hosts.spark.job_files import JobFiles
from penstock.service.client.packed_job import JobDescription, PackedJob, this_python
from penstock.service.dispatcher.events import JobEnded
from penstock.service.dispatcher.supervised_process import SupervisedProcess

FORKS = """
import os, time
forked = os.fork()
if forked == 0:
    {leaves}
    time.sleep(600)
open("forked", "w").write(str(forked))
"""


class Runs:
    """Runs a text when it is unpickled."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (self.text,)


@pytest.mark.parametrize("leaves", ["pass", "os.setsid()"])
def test_the_end_of_a_job_is_known_whatever_its_functions_have_forked(tmp_path: Path, leaves: str) -> None:
    """Its slots would never be free again; and what it has started would run on, with nobody to stop it."""
    description = JobDescription("forks", 1, penstock.__version__, this_python())
    program = program_pickler.dumps(Runs(FORKS.format(leaves=leaves)))
    packed = PackedJob(description, {}, program, dump_main_classes(), JobFiles(), False)
    (tmp_path / "job").write_bytes(msgspec.msgpack.encode(packed))
    said: queue.Queue[object] = queue.Queue()
    SupervisedProcess("a", tmp_path, str(tmp_path), JvmAddress(0, "", os.getpid()), 0, "", said.put, said.put)
    ended = said.get(timeout=60)
    assert isinstance(ended, JobEnded), ended
    assert "has exited with status 0" in str(said.get(timeout=60))
    forked = int((tmp_path / "forked").read_text())
    if leaves == "pass":
        assert _ends(forked)
    else:
        # What has left on purpose, as daemons do, stays.
        os.kill(forked, signal.SIGKILL)


def _ends(pid: int) -> bool:
    """Wait for the end of a process that is nobody's child here."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 60)[0])
    finally:
        os.close(process)
