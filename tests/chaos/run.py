"""One run of a plan: the job, its faults one after the other, and the checks at its end."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.chaos import checkers, store
from tests.chaos.driven_job import PATIENCE_S, RATE, DrivenJob, StuckError
from tests.chaos.moments import Moments
from tests.chaos.nemesis import Nemesis
from tests.chaos.plan import Fault, Moment, RunPlan
from tests.chaos.report import RunReport, Struck

_TO_WRITE_STACKS_S = 2
SECONDS_EACH = 8
"""The records suffice for so long for each fault; those that are left come at once when all faults are over."""


class Run:
    """`keep`: where logs stay. `has_disk`, `has_network`: whether the run has one of its own.

    `say` takes what happens, line by line.
    """

    def __init__(
        self,
        plan: RunPlan,
        keep: Path,
        has_disk: bool,
        has_network: bool,
        say: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._keep = keep
        self._has_disk = has_disk
        self._has_network = has_network
        self._say = say
        self._report = RunReport(plan, [], [])

    def carry_out(self) -> RunReport:
        """Let all happen, and check."""
        began = time.monotonic()
        self._keep.mkdir(parents=True)
        with contextlib.ExitStack() as stack:
            if self._has_disk:
                disk = stack.enter_context(store.mounted(self._keep))
            else:
                disk = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            orders = RATE * SECONDS_EACH * max(len(self._plan.faults), 1)
            job = DrivenJob(self._plan, disk, self._keep, orders, self._has_network)
            try:
                self._faults(job, Nemesis(job, store.Store(disk)))
                self._to_the_end(job)
                self._find("output", checkers.output(job.lines(), orders, self._plan.exactly_once))
                self._find("left", checkers.leftovers(job))
            except StuckError as error:
                self._find("stuck", [str(error)])
                job.driver.send_signal(signal.SIGABRT)
                time.sleep(_TO_WRITE_STACKS_S)
            finally:
                self._report.starts = job.starts
                self._report.former_ended_s = job.former_ended_s
                job.end()
        self._report.seconds = time.monotonic() - began
        return self._report

    def _find(self, what: str, findings: list[str]) -> None:
        for finding in findings:
            self._say(f"  FOUND {what}: {finding}")
            self._report.findings.append(f"{what}: {finding}")

    def _faults(self, job: DrivenJob, nemesis: Nemesis) -> None:
        moments = Moments(job)
        job.until(lambda: job.files_committed or job.driver.poll() is not None, "a first commit")
        for fault in self._plan.faults:
            job.go_on()
            if job.is_over:
                return
            before = len(job.said())
            hit = moments.await_(fault) and nemesis.strike(fault)
            struck = Struck(fault, hit)
            self._report.struck.append(struck)
            began = time.monotonic()
            self._answered(fault, job, moments)
            self._recovers(job, nemesis)
            struck.recovered_s = time.monotonic() - began
            said = job.said()[before:]
            if hit:
                self._find("message", checkers.messages(fault, said))
            effect = f"recovered in {struck.recovered_s:.1f} s" if hit else "without effect"
            self._say(f"  {fault.kind.value}, when {fault.moment.value}: {effect}")

    def _answered(self, fault: Fault, job: DrivenJob, moments: Moments) -> None:
        """The answer to a savepoint that was asked for. A driver that is dead gives none."""
        asked, moments.asked = moments.asked, None
        if asked is None:
            return
        try:
            path, _ = asked.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            asked.kill()
            asked.communicate()
            self._find("stuck", ["a savepoint was never answered"])
            return
        if fault.moment is not Moment.STOP:
            return
        if asked.returncode == 0:
            job.until(lambda: job.driver.poll() is not None, "the end of a job that was stopped")
            job.was_stopped(path.split()[-1])
            self._read(job)
        elif job.driver.poll() == 0:
            # The answer was lost on its way.
            new = [path for path in set(job.savepoints.glob("*")) - moments.before if (path / "_metadata").exists()]
            if new:
                job.was_stopped(str(new[0]))

    def _read(self, job: DrivenJob) -> None:
        if job.driver.returncode == 0:
            self._report.savepoints_read += 1
            self._find("state", checkers.state(job.stopped_with, job.lines()))

    def _recovers(self, job: DrivenJob, nemesis: Nemesis) -> None:
        """Output of each region is committed again, or the job has ended."""
        before = job.committed_in_each()
        # The first may have been prepared before the fault.
        further = 2

        def goes_on() -> bool:
            nonlocal before, further
            if job.driver.poll() is not None:
                starts = job.starts
                if job.driver.returncode not in (0, -9):
                    # It has said what is wrong: its user repairs it.
                    nemesis.mend()
                job.go_on()
                return job.is_over or job.starts == starts
            now = job.committed_in_each()
            if all(one > then or one == float("inf") for one, then in zip(now, before, strict=True)):
                before, further = now, further - 1
            return not further

        job.until(goes_on, "any output")
        nemesis.mend()

    def _to_the_end(self, job: DrivenJob) -> None:
        job.hurry()
        seen, since = job.files_committed, time.monotonic()
        while not job.is_over:
            time.sleep(0.2)
            job.go_on()
            if job.files_committed != seen:
                seen, since = job.files_committed, time.monotonic()
            if time.monotonic() - since > PATIENCE_S:
                raise StuckError("the job does not come to its end")
