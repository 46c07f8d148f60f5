"""The journal of a cluster in a shared folder: numbered entries that are created once and never changed.

    1   term 1, claim          a process leads
    2   term 1                 with the pointers to all jobs, as in each entry
    3   term 1
    4   term 2, claim          another process leads
    5   term 2

A leader writes by creating the entry after the last one that it knows. Creating is exclusive, so a leader that has a
successor finds its number taken by the successor's claim: what it writes never counts. The record of a job works the
same way (`engine/checkpoint/job_record.py`). Each entry has all pointers, so the newest entry suffices. Older entries
are removed, except claims: a former leader may try that number at any time. A process that claims may be equally late,
and find a number free because its entry was removed. So it checks the numbers after its claim: if any is taken, its
claim does not count, but stays, because removing it would open its number to a former leader. The last sixteen entries
stay, so that none of them can be missed in a folder that changes while it is listed.
"""

from __future__ import annotations

import contextlib
import uuid

import msgspec

from penstock.common.errors import ConfigurationError, DamagedCheckpointError
from penstock.common.values.decoding import DECODING_ERRORS, from_json
from penstock.engine.checkpoint.job_record import RecordStore
from penstock.engine.checkpoint.manifest import check_seal, seal
from penstock.service.cluster.high_availability.pointers import NotLeadingError

_TRIES = 20
_KEPT = 16


class Entry(msgspec.Struct, frozen=True):
    """An entry. `jobs`: the pointer of each job, by the id of its submission."""

    number: int
    term: int
    is_claim: bool = False
    jobs: dict[str, str] = {}
    writer: str = ""
    """A unique id of the process."""
    checksum: str = ""


NOTHING = Entry(0, 0)
"""The state of a cluster that has had no leader yet."""


class FolderGoneError(OSError):
    """An entry that existed is missing."""

    def __init__(self, number: int) -> None:
        super().__init__(
            f"entry {number} of the cluster's journal is missing: the folder was removed, or is not mounted here. "
            "Mount it again; if it was removed on purpose, stop all processes of the cluster and start a new one"
        )


class Journal:
    """The journal, as one process reads and writes it. `store`: its files. Used by one thread at a time."""

    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self._writer = uuid.uuid4().hex
        self._last = NOTHING
        """The newest entry that this process has read or written."""
        self._written = 0

    def read(self) -> Entry:
        """Return the newest entry. Raises OSError, and ConfigurationError if it is damaged."""
        for _ in range(_TRIES):
            numbers = self._store.numbers()
            if max(numbers, default=0) < self._last.number:
                # Otherwise the next process to claim would lead together with one that still sees the folder.
                raise FolderGoneError(self._last.number)
            # Entries after a claim are never removed, so there is no newer entry.
            with contextlib.suppress(FileNotFoundError):
                self._last = self._read(numbers[-1]) if numbers else NOTHING
                return self._last
        raise OSError("the journal of the cluster changes faster than it can be read")

    def claim(self, term: int) -> bool:
        """Claim the leadership, if the journal has not changed since it was last read; else return False.

        Raises OSError.
        """
        entry = Entry(self._last.number + 1, term, is_claim=True, jobs=self._last.jobs, writer=self._writer)
        if not self._create(entry):
            return False
        if max(self._store.numbers(), default=0) > entry.number:
            return False
        self._last = entry
        return True

    def check(self) -> None:
        """Raise NotLeadingError if another process has claimed the leadership after this process's last entry.

        Raises OSError, also if that entry is missing: the folder was removed, or is no longer mounted.
        """
        self._check_last()
        with contextlib.suppress(FileNotFoundError):
            if not self._is_ours(self._read(self._last.number + 1)):
                raise _followed()

    def write(self, jobs: dict[str, str]) -> None:
        """Append these pointers. Raises NotLeadingError, and OSError: then the write may count, now or later."""
        try:
            self._check_last()
        except FolderGoneError as error:
            # An entry would not be found there.
            raise NotLeadingError(str(error)) from None
        term = self._last.term
        while not self._create(entry := Entry(self._last.number + 1, term, jobs=jobs, writer=self._writer)):
            try:
                there = self._read(entry.number)
            except FileNotFoundError:
                # The folder is gone.
                raise _followed() from None
            if not self._is_ours(there):
                raise _followed()
            # The entry of a write that was reported as failed.
            self._last = there
        self._last = entry
        self._written += 1
        if self._written % _KEPT == 0:
            self._remove_old()

    @property
    def jobs(self) -> dict[str, str]:
        """The pointers of the newest entry that this process knows."""
        return dict(self._last.jobs)

    def _check_last(self) -> None:
        """Check that the last entry written here still exists. Without it, any number would be free."""
        try:
            # Damage of this entry does not matter here: the next one has all pointers.
            self._store.read(self._last.number)
        except FileNotFoundError:
            if max(self._store.numbers(), default=0) > self._last.number:
                # The current leader has removed it as an old entry.
                raise _followed() from None
            raise FolderGoneError(self._last.number) from None

    def _remove_old(self) -> None:
        # A later call removes what can't be removed now.
        with contextlib.suppress(OSError):
            for number in self._store.numbers():
                if number <= self._last.number - _KEPT and not self._read(number).is_claim:
                    self._store.remove(number)

    def _is_ours(self, entry: Entry) -> bool:
        return (entry.term, entry.writer) == (self._last.term, self._writer)

    def _create(self, entry: Entry) -> bool:
        return self._store.create(entry.number, seal(entry))

    def _read(self, number: int) -> Entry:
        data = self._store.read(number)
        where = f"entry {number} of the cluster's journal"
        try:
            check_seal(data, where)
            return from_json(data, Entry)
        except (DamagedCheckpointError, *DECODING_ERRORS) as error:
            raise ConfigurationError(
                f"{where} can't be read: {error}. With a copy of the folder from a backup, put it there; or remove the "
                "entry: the changes of the jobs that it has are lost then"
            ) from error


def _followed() -> NotLeadingError:
    return NotLeadingError("another process leads the cluster: what this one writes does not count any more")
