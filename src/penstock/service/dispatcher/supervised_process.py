"""Start the process of a job, and receive its events until it is gone."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from penstock.hosts.spark.internals.shared_context import JvmAddress
from penstock.service.dispatcher.job_output import newest_output
from penstock.service.dispatcher.link import FromJob, ToJob, dispatcher_end

# Not -m: classes of the job's own script are put into __main__, which must be empty otherwise.
_MAIN = "from penstock.service.dispatcher.job_process import main; main()"
_FORCED_S = 5.0


class SupervisedProcess:
    """The process of a job. `received` is called with its events, `ended` once with how it ended, on its own thread.

    `folder`: of the submission. `until_ms`: until when the dispatcher leads; 0: always. `working_directory`: where the
    process runs if it exists, else in the folder. Raises OSError if it can't be started.
    """

    def __init__(
        self,
        id: str,
        folder: Path,
        working_directory: str,
        jvm: JvmAddress,
        until_ms: int,
        resumes: str,
        received: Callable[[FromJob], object],
        ended: Callable[[str], object],
    ) -> None:
        ours, theirs = socket.socketpair()
        self._link = dispatcher_end(ours)
        directory = working_directory if Path(working_directory).is_dir() else str(folder)
        with theirs, newest_output(folder).open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-u", "-c", _MAIN, id, str(folder), str(theirs.fileno()), str(jvm.pid),
                 str(until_ms), resumes],
                cwd=directory, env={**os.environ, **jvm.environment}, pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        self._gone = threading.Event()
        threading.Thread(target=self._reap, name=f"penstock-end-{id[:8]}", daemon=True).start()
        threading.Thread(
            target=self._supervise, args=(received, ended), name=f"penstock-job-{id[:8]}", daemon=True
        ).start()

    def send(self, message: ToJob) -> None:
        """Send an effect. Does nothing if the process is gone."""
        self._link.send(message)

    def send_unless_blocked(self, message: ToJob) -> None:
        """Send an effect, unless the process does not read, because it is suspended for example."""
        self._link.send_unless_blocked(message)

    def kill(self) -> None:
        """Kill the process, and wait for its end."""
        self._process.kill()
        self._gone.wait(_FORCED_S)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            # Not reaped yet, so no other process can have its id, which is also that of its group.
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        # Processes that a user's function has forked would outlive the job, and hold its end of the link.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        # Events that were sent before are still read, even if a process outside of the group holds the other end.
        self._link.close()
        self._gone.set()

    def _supervise(self, received: Callable[[FromJob], object], ended: Callable[[str], object]) -> None:
        try:
            for message in self._link.received():
                received(message)
        finally:
            # A user's function may have closed only the link.
            self._link.close()
            self._gone.wait()
            code = self._process.returncode
            ended(
                f"the process of the job, {self._process.pid}, {_how(code)}, before the job had ended. With "
                "checkpoints, run the job again with -s latest to resume it from the newest one"
            )


def _how(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
    return f"has exited with status {code}"
