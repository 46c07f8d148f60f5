"""The record of a job: what its runs have published, as numbered entries that are created once and never changed.

    1   checkpoint 1           its manifest
    2   checkpoint 2
    3   claim, epoch 2         another run has taken the job over
    4   checkpoint 3           by the run of epoch 2
    5   end                    the job has finished: nothing follows

A job without a checkpoint interval commits output with savepoints, too. It publishes these the same way:

    6   savepoint              output is committed with it: it counts as the newest checkpoint

A run publishes by creating the entry behind the last one that it knows. Creating is exclusive, so a run that was taken
over finds its number taken, by the claim, and is fenced off: it can neither complete a checkpoint, and so commit what
belongs to it, nor end the job. To look before a write would not do: a process may be stopped for a minute between the
two. Only entries of subsumed checkpoints are removed. A claim stays, since a former run may try its number at any time.
A claim may itself come late, and find a number free because its entry was removed: it does not count if anything is
behind it. It is not withdrawn: what is behind it may be another claim, by a run that has seen it, and its number would
be open again to the run before both.

Source: State Management paper, 4.5 (high availability); the epoch is Flink's fencing token.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol

import msgspec

from penstock.common.errors import CheckpointError, DamagedCheckpointError, FencedError
from penstock.common.errors.unreadable import UNREADABLE
from penstock.common.values.decoding import from_json
from penstock.engine.checkpoint.manifest import Manifest, check_seal, decode, encode, seal

_LOOKS_MAX = 20
_CHECKPOINT, _CLAIM, _END, _VOID = "checkpoint", "claim", "end", "void"
_SAVEPOINT = "savepoint"
_KINDS = (_CHECKPOINT, _CLAIM, _END, _VOID, _SAVEPOINT)
_TRIES = 5
_PAUSE_S = 0.2


_EPOCH = re.compile(r"e(\d+)-")


def file_name(name: str, epoch: int) -> str:
    """The name of a state file that the run of an epoch writes: no other run writes one of that name."""
    return f"e{epoch}-{name}" if epoch > 1 else name


def epoch_of(file_name: str) -> int:
    """The epoch of the run that has written a file."""
    match = _EPOCH.match(file_name)
    return int(match.group(1)) if match else 1


class RecordStore(Protocol):
    """Where the entries of one job are kept. Methods raise OSError where the store fails."""

    def numbers(self) -> list[int]:
        """The numbers of all entries, ascending."""

    def read(self, number: int) -> bytes:
        """An entry. Raises FileNotFoundError if there is none of that number."""

    def create(self, number: int, data: bytes) -> bool:
        """Create an entry in one piece. False: there is one of that number, or the whole record was deleted."""

    def remove(self, number: int) -> None:
        """Remove an entry, if it exists."""


class _Entry(msgspec.Struct, frozen=True):
    """An entry that is no manifest, or those fields of a manifest that matter here."""

    kind: str = _CHECKPOINT
    epoch: int = 0
    checkpoint_id: int = 0
    record_number: int = 0
    job_name: str = ""
    how: str = ""
    """Of an end: the status of the job."""
    stopped_with: str = ""
    """Of an end: the savepoint with which the job has stopped."""
    path: str = ""
    """Of a savepoint."""
    checksum: str = ""


class End(NamedTuple):
    """How a job has ended. `savepoint`: that with which it was stopped, or empty."""

    job_name: str
    how: str
    savepoint: str


class Recorded(NamedTuple):
    """What a record says now."""

    last: int
    """The number of the last entry."""
    epoch: int
    """That of the run which holds the job. An entry that can't be read counts as a claim."""
    checkpoint: Manifest | None
    """The newest checkpoint that can be read."""
    end: End | None
    damaged: str = ""
    """What is wrong with entries behind that checkpoint, or at its place."""
    savepoint: str = ""
    """A savepoint that takes the place of the checkpoint: it is newer, and output was committed with it."""


NOTHING = Recorded(0, 1, None, None)
"""Of a job of which nothing was published yet. Who claims it has the second epoch."""


def recorded(store: RecordStore) -> Recorded | None:
    """What a record says; None: there is none."""
    for _ in range(_LOOKS_MAX):
        numbers = store.numbers()
        if not numbers:
            return None
        try:
            return _read(store, numbers)
        except FileNotFoundError:
            # The run that holds the job has removed it in the meantime: it has published a newer one.
            continue
    raise CheckpointError("the record of the job changes faster than it can be read")


def _read(store: RecordStore, numbers: list[int]) -> Recorded:
    epoch, damaged, unread = 1, "", 0
    for number in reversed(numbers):
        try:
            entry, manifest = _decoded(store.read(number), number)
        except DamagedCheckpointError as error:
            damaged = damaged or str(error)
            unread += 1
            continue
        epoch = max(epoch, entry.epoch)
        if entry.kind == _END:
            end = End(entry.job_name, entry.how, entry.stopped_with)
            return Recorded(numbers[-1], epoch + unread, None, end, damaged)
        if manifest is not None or entry.path:
            # Nothing is ever removed behind the newest checkpoint: where a number is missing, its entry was lost.
            lost = min(set(range(number + 1, numbers[-1])).difference(numbers), default=0)
            if lost and not damaged:
                damaged = lost_entry(lost)
            return Recorded(numbers[-1], epoch + unread, manifest, None, damaged, entry.path)
    return Recorded(numbers[-1], epoch + unread, None, None, damaged)


def lost_entry(number: int) -> str:
    """What is wrong with a record without that entry."""
    return f"entry {number} of the job's record is missing: it was lost, with the checkpoint that it may have been"


def checkpoints_in(store: RecordStore) -> list[Manifest]:
    """The checkpoints on record that can be read, oldest first."""
    found: dict[int, Manifest] = {}
    for number in store.numbers():
        # One that is subsumed may be removed meanwhile.
        with contextlib.suppress(FileNotFoundError, DamagedCheckpointError):
            _, manifest = _decoded(store.read(number), number)
            if manifest is not None:
                found[manifest.checkpoint_id] = manifest
    return [found[checkpoint] for checkpoint in sorted(found)]


def older_in(store: RecordStore, newest: int) -> list[Manifest]:
    """The checkpoints on record before the one of number `newest`, oldest first."""
    return [manifest for manifest in checkpoints_in(store) if manifest.checkpoint_id < newest]


def job_name_in(store: RecordStore) -> str | None:
    """The name of the job that a record is of, also if a newer version of penstock has written it. None: unknown."""
    for number in reversed(store.numbers()):
        with contextlib.suppress(OSError, *UNREADABLE):
            name = from_json(store.read(number), _Entry).job_name
            if name:
                return name
    return None


def _decoded(data: bytes, number: int) -> tuple[_Entry, Manifest | None]:
    """An entry, and the manifest that it is. Raises DamagedCheckpointError; CheckpointError for a newer penstock's."""
    manifest: Manifest | None = None
    where = f"entry {number} of the job's record"
    try:
        entry = from_json(data, _Entry)
        if entry.kind == _CHECKPOINT:
            manifest = decode(data, where)
        else:
            check_seal(data, where)
    except UNREADABLE as error:
        raise DamagedCheckpointError(f"{where} is damaged: {error}") from error
    if entry.kind not in _KINDS:
        raise CheckpointError(
            f"{where} is of a kind that this version of penstock does not know ({entry.kind}): another version wrote it"
        )
    if entry.record_number not in (0, number):
        raise DamagedCheckpointError(f"{where} is damaged: it is entry {entry.record_number}")
    # Manifests have an epoch of 0 if something else than a run has written them.
    return msgspec.structs.replace(entry, epoch=max(entry.epoch, 1)), manifest


class JobRecord:
    """One run's hold on the record of its job, from its first entry, or from its claim, on."""

    def __init__(
        self,
        store: RecordStore,
        job_name: str = "",
        epoch: int = 1,
        last: int = 0,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.epoch = epoch
        self.is_fenced = False
        """Whether another run has taken the job over."""
        self._is_deleted = False
        self.has_ended = False
        """Whether this run has recorded the end of the job."""
        self.stopped_with = ""
        """The savepoint that is its end."""
        self._is_unsure = False
        """Whether the entry behind our last one may be there, or come to be, though the store has said no."""
        self._store = store
        self._job_name = job_name
        self._last = last
        self._pause = pause
        self._checkpoints: dict[int, int | None] = {}
        """The checkpoint of each entry that is known; None: it is none."""
        self._entries: dict[int, set[int]] = {}
        """The entries of each checkpoint."""
        self._is_listed = False
        """Whether these are all, so that the store, which may hold a thousand, need not be asked what it has."""

    @staticmethod
    def claim(store: RecordStore, job_name: str, seen: Recorded | None) -> JobRecord:
        """Take a job over, as it was when `seen` was read. Raises CheckpointError if another run was quicker."""
        record = JobRecord.try_to_claim(store, job_name, seen)
        if record is None:
            raise CheckpointError(
                "the job has gone on in the meantime, or another run has taken it over at the same moment: see "
                "penstock list"
            )
        return record

    @staticmethod
    def try_to_claim(store: RecordStore, job_name: str, seen: Recorded | None) -> JobRecord | None:
        """The same. None: another run was quicker, or has published something."""
        epoch, last = (seen.epoch + 1, seen.last) if seen is not None else (1, 0)
        entry = _Entry(_CLAIM, epoch, record_number=last + 1, job_name=job_name)
        if not store.create(last + 1, seal(entry)):
            return None
        if max(store.numbers(), default=0) > last + 1:
            # Another run has claimed the job behind us. Or the number was free because its entry was subsumed and
            # removed: the run has published several since, goes on behind these, and would never find the claim.
            return None
        return JobRecord(store, job_name, epoch, last + 1)

    def publish(self, manifest: Manifest) -> int:
        """Publish a checkpoint: from here on it is complete. Returns the number of its entry. Raises FencedError."""
        # With the epoch of this run, also if a former one has taken the checkpoint: we have fallen back to it.
        self._append(lambda number: encode(msgspec.structs.replace(manifest, record_number=number, epoch=self.epoch)))
        self._note(self._last, manifest.checkpoint_id)
        return self._last

    def end(self, how: str, savepoint: str = "") -> None:
        """Record that the job has ended: nothing is ever restored from it. Raises FencedError."""
        entry = _Entry(_END, self.epoch, job_name=self._job_name, how=how, stopped_with=savepoint)
        self._append(lambda number: seal(msgspec.structs.replace(entry, record_number=number)))
        self.has_ended, self.stopped_with = True, savepoint

    def saved(self, savepoint: str, checkpoint: int) -> None:
        """Record that output is committed with a savepoint: the job goes on from there. Raises FencedError."""
        entry = _Entry(_SAVEPOINT, self.epoch, checkpoint, job_name=self._job_name, path=savepoint)
        self._append(lambda number: seal(msgspec.structs.replace(entry, record_number=number)))

    def forget(self, checkpoint: int) -> None:
        """Remove the entries of a checkpoint, which is not the newest. Raises FencedError."""
        self.check()
        if not self._is_listed:
            self._list()
        for number in list(self._entries.get(checkpoint, ())):
            self._store.remove(number)
            self._entries[checkpoint].discard(number)
            self._checkpoints.pop(number, None)
        self._entries.pop(checkpoint, None)

    def retain(self, checkpoints: Collection[int]) -> None:
        """Remove the entries of all other checkpoints. Raises FencedError."""
        self.check()
        self._list()
        for checkpoint in self._entries.keys() - set(checkpoints):
            self.forget(checkpoint)

    def _list(self) -> None:
        """Find the entries of all checkpoints. Those behind our last entry belong to a run that took the job over."""
        self._entries = {}
        for number in self._store.numbers():
            if number > self._last:
                continue
            if number not in self._checkpoints:
                try:
                    _, manifest = _decoded(self._store.read(number), number)
                except (FileNotFoundError, DamagedCheckpointError):
                    # It is gone; or not ours to judge: it may be a claim.
                    continue
                self._note(number, manifest.checkpoint_id if manifest is not None else None)
            else:
                self._note(number, self._checkpoints[number])
        self._is_listed = True

    def _note(self, number: int, checkpoint: int | None) -> None:
        """An entry is that of a checkpoint, or of none."""
        self._checkpoints[number] = checkpoint
        if checkpoint is not None:
            self._entries.setdefault(checkpoint, set()).add(number)

    def is_taken(self) -> bool:
        """Whether another run has created the entry behind our last one. Raises OSError."""
        with contextlib.suppress(DamagedCheckpointError):
            return self._epoch_at(self._last + 1) not in (self.epoch, None)
        return False

    def may_remove(self, name: str, former_only: bool) -> bool:
        """Whether a state file is certainly none of a successor's. `former_only`: nor of this run's."""
        epoch = epoch_of(name)
        return epoch < self.epoch or (epoch == self.epoch and not former_only)

    def check(self) -> None:
        """Before anything is written or removed. Raises FencedError if it is known that another run has the job.

        Raises OSError if it is not known whether an entry was written.
        """
        self.check_fenced()
        if self._is_unsure:
            self._settle()

    def check_fenced(self) -> None:
        """Raises FencedError if it is known that the job was taken over, or that its record was deleted."""
        if self.is_fenced:
            why = "the record of this job was deleted, with its checkpoint directory or in it"
            if not self._is_deleted:
                why = "another run has taken this job over"
            raise FencedError(f"{why}: this one may no longer write to the job's storage")

    def _settle(self) -> None:
        """Find out whether an entry is there; if not, it never will be. Raises OSError, FencedError.

        Before anything is written or removed: what the entry names may be all that there is of the job.
        """
        number = self._last + 1
        if not self._store.create(number, seal(_Entry(_VOID, self.epoch, record_number=number))):
            epoch = self._epoch_at(number)
            self.is_fenced, self._is_deleted = epoch != self.epoch, epoch is None
            self.check_fenced()
        self._last, self._is_unsure, self._is_listed = number, False, False

    def _append(self, entry: Callable[[int], bytes]) -> None:
        """Create the entry behind the last one; `entry` gives its text, by its number."""
        self.check()
        while not self._create(self._last + 1, entry(self._last + 1)):
            epoch = self._epoch_at(self._last + 1)
            if epoch != self.epoch:
                self.is_fenced = True
                self._is_deleted = epoch is None
                self.check()
            # Of a write that was reported as failed: it may name a checkpoint.
            self._last += 1
            self._is_listed = False
        self._last += 1

    def _create(self, number: int, data: bytes) -> bool:
        try:
            return self._store.create(number, data)
        except OSError:
            # It may have been created nevertheless, or be created later, and then it counts. So the number is taken, by
            # an entry that says nothing: either that succeeds, or ours is there.
            for _ in range(_TRIES):
                with contextlib.suppress(OSError):
                    if self._store.read(number) == data:
                        return True
                with contextlib.suppress(OSError):
                    if self._store.create(number, seal(_Entry(_VOID, self.epoch, record_number=number))):
                        self._last += 1
                        break
                    return self._store.read(number) == data
                self._pause(_PAUSE_S)
            else:
                self._is_unsure = True
            raise

    def _epoch_at(self, number: int) -> int | None:
        """The epoch of the run that has created an entry. None: there is none, or the whole record is gone."""
        try:
            entry, _ = _decoded(self._store.read(number), number)
        except FileNotFoundError:
            return None
        return entry.epoch
