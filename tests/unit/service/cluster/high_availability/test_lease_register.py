"""Election in a shared folder."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.service.cluster.high_availability.register_suite import Make, RegisterSuite, elected, made_by

from penstock.service.cluster.high_availability.lease_register import LeaseRegister
from penstock.service.cluster.high_availability.register import Register

LEASE_MS = 500
LEADS_AND_DIES = """
import os, sys, time
from pathlib import Path
from penstock.service.cluster.high_availability.lease_register import LeaseRegister

register = LeaseRegister(Path(sys.argv[1]), 600_000)
assert register.claim(register.look())
print("leads", flush=True)
sys.stdin.read()
os._exit(1)
"""


@pytest.fixture
def register(tmp_path: Path) -> Iterator[Make]:
    yield from made_by(lambda lease_ms: LeaseRegister(tmp_path, lease_ms), LEASE_MS)


@pytest.fixture
def depose() -> Callable[[Register], object]:
    """It is silent for longer than its lease."""
    return lambda former: time.sleep(LEASE_MS / 1000)


class TestLeaseRegister(RegisterSuite):
    """What holds for each register."""


def test_a_process_that_has_died_on_this_machine_is_followed_at_once(tmp_path: Path) -> None:
    """Jobs would stand still for the time of a lease that nobody renews."""
    process = subprocess.Popen(
        [sys.executable, "-c", LEADS_AND_DIES, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == b"leads\n"
    standby = LeaseRegister(tmp_path, 600_000)
    assert standby.look() is None
    process.stdin.close()
    process.wait()
    assert elected(standby) == 2
    process.stdout.close()
    standby.close()


def test_of_former_leaders_no_leases_stay(tmp_path: Path) -> None:
    """The folder would grow with each change of the leader."""
    for _ in range(3):
        register = LeaseRegister(tmp_path, LEASE_MS)
        elected(register)
        register.close()
    assert [path.name for path in (tmp_path / "leader").glob("lease-*")] == ["lease-3"]


def test_only_the_user_can_read_it(tmp_path: Path) -> None:
    """Others of the machine could follow a cluster, or lead it."""
    register = LeaseRegister(tmp_path / "cluster", LEASE_MS)
    elected(register)
    assert (tmp_path / "cluster" / "leader").stat().st_mode & 0o077 == 0
    register.close()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\0" * 1024,
        b"[]",
        b"[" * 100_000,
        b'{"leader": {"term": 1, "host": "\xff", "pid": 1}, "kernel": "", "renewals": 1}',
    ],
)
def test_a_lease_that_says_nothing_runs_out(tmp_path: Path, text: bytes) -> None:
    """A machine that crashed while it wrote its lease would end all that stand by, or never be followed."""
    former, standby = LeaseRegister(tmp_path, LEASE_MS), LeaseRegister(tmp_path, LEASE_MS)
    elected(former)
    former.close()
    (tmp_path / "leader" / "lease-1").write_bytes(text)
    assert standby.leader() is None
    assert standby.look() is None
    assert elected(standby) == 2
    standby.close()
