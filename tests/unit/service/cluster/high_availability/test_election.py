"""The host of a leadership, on a folder whose disk is full."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from penstock.service.cluster.high_availability.election import Election
from penstock.service.cluster.high_availability.lease_register import LeaseRegister


class OnAFullDisk(LeaseRegister):
    """It can be read. Nothing can be created until `has_room`."""

    def __init__(self, folder: Path) -> None:
        # Long, so that a busy machine does not lose the lead that it has just claimed.
        super().__init__(folder, 60_000)
        self.retry_ms = 10
        self.has_room = False
        self.tries = 0
        self.tried_often = threading.Event()

    def claim(self, term: int) -> bool:
        if self.has_room:
            return super().claim(term)
        self.tries += 1
        if self.tries == 4:
            self.tried_often.set()
        raise OSError(errno.ENOSPC, "No space left on device", str(self._folder))


def test_a_folder_without_room_is_told_once_and_led_when_it_has_some(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that stands by would write twenty lines a second to its log, which may be on that disk."""
    caplog.set_level("INFO", "penstock")
    register, leads = OnAFullDisk(tmp_path), threading.Event()
    election = Election(register, lambda term: leads.set(), lambda until_ms: None, lambda why: None)
    election.start()
    assert register.tried_often.wait(30)
    assert not leads.is_set()
    register.has_room = True
    assert leads.wait(30)
    election.stop()
    told = [record.getMessage() for record in caplog.records if "register of leaders" in record.getMessage()]
    assert told == [
        f"cannot reach the register of leaders: [Errno 28] No space left on device: '{tmp_path / 'leader'}'",
        "the register of leaders can be reached again",
    ]
