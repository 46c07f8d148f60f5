"""The lease of a job: a second run is refused, and a dead run does not block the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from pyarrow import fs

from penstock.common.errors import CheckpointError
from penstock.engine.checkpoint.lease import Lease, wait_until_free

LOCAL = fs.LocalFileSystem()
HOLDER = """
import sys, time
from pyarrow import fs
from penstock.engine.checkpoint.lease import Lease
Lease(fs.LocalFileSystem(), sys.argv[1], lambda: print("lost", flush=True), 500).hold()
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "job" / "lease")


def test_a_job_that_runs_is_not_taken_over(path: str) -> None:
    """A second start of a job by mistake would end the first run."""
    wait_until_free(LOCAL, path, "job", 10)
    lease = Lease(LOCAL, path, lambda: None, 300)
    lease.hold()
    with pytest.raises(CheckpointError, match=r"the job abc is still running.*penstock cancel abc"):
        wait_until_free(LOCAL, path, "abc", 10_000)
    lease.release()
    assert not Path(path).exists()
    wait_until_free(LOCAL, path, "job", 10)


def test_a_process_that_died_or_stopped(path: str) -> None:
    """After a crash the job would be down longer than necessary; a stopped process would hold it forever."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    process.send_signal(signal.SIGSTOP)
    wait_until_free(LOCAL, path, "job", 1_000)
    lease = Lease(LOCAL, path, lambda: None, 60_000)
    lease.hold()
    process.send_signal(signal.SIGCONT)
    assert process.stdout.readline() == "lost\n", "it finds out without asking anybody"
    lease.release()
    Lease(LOCAL, path, lambda: None, 60_000).hold()
    process.kill()
    process.wait()


def test_a_process_that_is_gone_is_not_waited_for(path: str) -> None:
    """Each restart after a crash would take the time of a lease longer."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    process.kill()
    process.wait()
    assert Path(path).exists()
    done = threading.Event()
    threading.Thread(target=lambda: (wait_until_free(LOCAL, path, "job", 600_000), done.set()), daemon=True).start()
    assert done.wait(30)


def test_where_nothing_can_be_locked_it_is_watched() -> None:
    """Runs on an object store would not see each other."""
    import fsspec

    memory = fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem("memory")))
    path = f"/leases-{os.getpid()}/job/lease"
    lost = threading.Event()
    lease = Lease(memory, path, lost.set, 250)
    lease.hold()
    with pytest.raises(CheckpointError, match="still running"):
        wait_until_free(memory, path, "job", 10_000)
    other = Lease(memory, path, lambda: None, 600_000)
    other.hold()
    assert lost.wait(30)
    lease.release()
    assert memory.get_file_info(path).type is fs.FileType.File, "it is another run's now"
    watching = threading.Thread(target=wait_until_free, args=(memory, path, "job", 300_000), daemon=True)
    watching.start()
    time.sleep(0.3)
    other.release()
    watching.join(30)
    assert not watching.is_alive(), "no run waits for a run that has ended"


def test_a_lease_that_is_damaged_is_renewed_and_given_back(path: str) -> None:
    """One flipped bit would end its renewal, and the job would hang at its end."""
    lease = Lease(LOCAL, path, lambda: None, 300, is_taken_over=lambda: False)
    lease.hold()
    whole = Path(path).read_bytes()
    Path(path).write_bytes(b"\xff" + whole[1:])
    end = time.monotonic() + 20
    while Path(path).read_bytes()[:8] != whole[:8]:
        assert time.monotonic() < end, "it is not renewed"
        time.sleep(0.01)
    lease.release()
    assert not Path(path).exists()


def test_a_record_that_can_not_be_read_does_not_end_its_renewal(path: str) -> None:
    """Another run could take over a job that runs."""
    looks = threading.Semaphore(0)

    def is_taken_over() -> bool:
        looks.release()
        raise ValueError("the record is damaged")

    lease = Lease(LOCAL, path, lambda: None, 300, is_taken_over)
    lease.hold()
    Path(path).write_bytes(b"\xff\xfe")
    assert looks.acquire(timeout=20) and looks.acquire(timeout=20)
    lease.release()
