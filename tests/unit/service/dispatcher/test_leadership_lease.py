"""The lead of a dispatcher, as the process of a job has it."""

from __future__ import annotations

import subprocess
import sys
import threading

from penstock.service.cluster.high_availability.steady_clock import steady_ms
from penstock.service.dispatcher.events import Leads
from penstock.service.dispatcher.leadership_lease import ForwardedLease

DAY_MS = 86_400_000
"""Its end would be that of this process."""
ENDS = """
import time
from penstock.service.cluster.high_availability.steady_clock import steady_ms
from penstock.service.dispatcher.leadership_lease import ForwardedLease

ForwardedLease(steady_ms() + 200)
time.sleep(60)
"""
OVER = """
from penstock.service.dispatcher.leadership_lease import ForwardedLease

ForwardedLease(1).confirm()
"""


OVER_WRITES = """
from pathlib import Path
from penstock.service.dispatcher.leadership_lease import ForwardedLease

ForwardedLease(1).write(Path"""


def ended(program: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: it ends with the lead."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)


def test_a_lead_that_nobody_else_can_have_needs_no_confirmation() -> None:
    """Jobs of a cluster on one machine would wait for what never comes."""
    ForwardedLease(0).confirm()


def test_only_what_was_asked_later_confirms() -> None:
    """A job would begin behind a claim that a later leader has not seen."""
    lead = ForwardedLease(steady_ms() + DAY_MS)
    lead.extend(Leads("a", steady_ms() + DAY_MS, steady_ms()))
    confirmed = threading.Event()
    threading.Thread(target=lambda: (lead.confirm(), confirmed.set()), daemon=True).start()
    assert not confirmed.wait(0.3), "it was asked before"
    lead.extend(Leads("a", steady_ms() + DAY_MS, steady_ms()))
    assert confirmed.wait(10)


def test_a_lead_that_is_over_is_not_confirmed() -> None:
    """A job would begin under a dispatcher that was followed by another."""
    done = ended(OVER)
    assert (done.returncode, "no longer leads the cluster" in done.stderr) == (1, True)


def test_the_plan_of_a_process_that_was_followed_is_not_kept(tmp_path) -> None:
    """The leader's process would start the job again with functions, or a parallelism, that it does not have."""
    file = tmp_path / "job"
    ForwardedLease(0).write(file, b"of the one that leads")
    done = ended(f"{OVER_WRITES}({str(file)!r}), b'of the one before')")
    assert (done.returncode, "no longer leads the cluster" in done.stderr) == (1, True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"job": b"of the one that leads"}


WAITS = """
import threading, time
from penstock.service.cluster.high_availability.steady_clock import steady_ms
from penstock.service.dispatcher.events import Leads
from penstock.service.dispatcher.leadership_lease import ForwardedLease

file, lead = Path(sys.argv[1]), ForwardedLease(steady_ms() + 100)
time.sleep(0.2)
writing = threading.Thread(target=lead.write, args=(file, b"new"), daemon=True)
writing.start()
writing.join(0.2)
assert writing.is_alive() and not file.exists()
# JobRequest before the call: it waited in the socket of a process that was stopped.
lead.extend(Leads("a", steady_ms() + 60_000, steady_ms() - 10_000))
writing.join(10)
assert file.read_bytes() == b"new"
lead.write(file, b"newer")
"""


def test_a_plan_behind_the_end_of_the_lead_waits_for_more_of_it(tmp_path) -> None:
    """What a process that was stopped has to read would come too late: its job goes back to the functions before."""
    file = tmp_path / "job"
    done = ended(f"import sys; from pathlib import Path; sys.argv[1:] = [{str(file)!r}]\n{WAITS}")
    assert done.returncode == 0, done.stderr
    assert [*tmp_path.iterdir()] == [file]
    assert file.read_bytes() == b"newer", "nothing is waited for as long as the lead lasts"


def test_a_process_ends_with_the_lead() -> None:
    """A job would run twice for as long as its dispatcher is stopped."""
    done = ended(ENDS)
    assert done.returncode == 1
    assert "its dispatcher no longer leads the cluster" in done.stderr
