"""The record of a job: numbered entries that its runs publish, each created once and never changed.

    1   checkpoint 1           its manifest
    2   checkpoint 2
    3   claim, epoch 2         another run has taken the job over
    4   checkpoint 3           by the run of epoch 2
    5   end                    the job has finished: nothing follows

A job without a checkpoint interval also commits output with savepoints. It publishes these the same way:

    6   savepoint              output is committed with it, so it counts as the newest checkpoint

A run publishes by creating the entry after the last one that it knows. Creation is exclusive, so a run that was taken
over finds that the claim has its number, and is fenced: it can neither complete a checkpoint, and so commit its output,
nor end the job. A check before the write would not be enough: the process may be stopped for a minute between the two.

Only entries of subsumed checkpoints are removed. A claim stays, since an earlier run may try its number at any time. A
claim may itself come late, and find a number free because its entry was removed: it is void if any entry follows it. It
is not withdrawn: the following entry may be another claim, by a run that has seen it, and without it the number would
be free again for the run before both.

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
from penstock.common.values.decoding import DECODING_ERRORS, from_json
from penstock.engine.checkpoint.manifest import Manifest, check_seal, decode, encode, seal

_LOOKS_MAX = 20
_CHECKPOINT, _CLAIM, _END, _VOID = "checkpoint", "claim", "end", "void"
_SAVEPOINT = "savepoint"
_KINDS = (_CHECKPOINT, _CLAIM, _END, _VOID, _SAVEPOINT)
_TRIES = 5
_PAUSE_S = 0.2


_EPOCH = re.compile(r"e(\d+)-")


def file_name(name: str, epoch: int) -> str:
    """Return the name under which the run of an epoch writes a state file: no other run writes that name."""
    return f"e{epoch}-{name}" if epoch > 1 else name


def epoch_of(file_name: str) -> int:
    """Return the epoch of the run that wrote a file."""
    match = _EPOCH.match(file_name)
    return int(match.group(1)) if match else 1


class RecordStore(Protocol):
    """A store of the entries of one job. Methods raise OSError if the store fails."""

    def numbers(self) -> list[int]:
        """Return the numbers of all entries, ascending."""

    def read(self, number: int) -> bytes:
        """Return the content of an entry. Raises FileNotFoundError if it does not exist."""

    def create(self, number: int, data: bytes) -> bool:
        """Create an entry atomically. False: the entry exists, or the whole record was deleted."""

    def remove(self, number: int) -> None:
        """Remove an entry, if it exists."""


class _Entry(msgspec.Struct, frozen=True):
    """An entry other than a manifest, or the fields of a manifest that matter here."""

    kind: str = _CHECKPOINT
    epoch: int = 0
    checkpoint_id: int = 0
    record_number: int = 0
    job_name: str = ""
    how: str = ""
    """In an end: the status of the job."""
    stopped_with: str = ""
    """In an end: the savepoint with which the job stopped."""
    path: str = ""
    """In a savepoint: its directory."""
    checksum: str = ""


class End(NamedTuple):
    """The end of a job. `savepoint`: the one with which it was stopped, or empty."""

    job_name: str
    status: str
    savepoint: str


class RecordContent(NamedTuple):
    """The current content of a record."""

    last: int
    """The number of the last entry."""
    epoch: int
    """The epoch of the run that holds the job. An unreadable entry counts as a claim."""
    checkpoint: Manifest | None
    """The newest readable checkpoint."""
    end: End | None
    damaged: str = ""
    """The damage of entries after that checkpoint, or of all checkpoints."""
    savepoint: str = ""
    """A savepoint that replaces the checkpoint: it is newer, and output was committed with it."""


EMPTY_RECORD = RecordContent(last=0, epoch=1, checkpoint=None, end=None)
"""The content for a job that has published nothing yet. The run that claims it has epoch 2."""


def read_record(store: RecordStore) -> RecordContent | None:
    """Read a record. Returns None if it has no entries."""
    for _ in range(_LOOKS_MAX):
        numbers = store.numbers()
        if not numbers:
            return None
        try:
            return _read(store, numbers)
        except FileNotFoundError:
            # Meanwhile the run that holds the job published a newer checkpoint and removed this entry.
            continue
    raise CheckpointError("the record of the job changes faster than it can be read")


def _read(store: RecordStore, numbers: list[int]) -> RecordContent:
    last, epoch, damaged, unread = numbers[-1], 1, "", 0
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
            return RecordContent(last, epoch + unread, checkpoint=None, end=end, damaged=damaged)
        if manifest is not None or entry.path:
            # Entries after the newest checkpoint are never removed: a missing number means a lost entry.
            lost = min(set(range(number + 1, last)).difference(numbers), default=0)
            if lost and not damaged:
                damaged = lost_entry(lost)
            return RecordContent(
                last, epoch + unread, checkpoint=manifest, end=None, damaged=damaged, savepoint=entry.path
            )
    return RecordContent(last, epoch + unread, checkpoint=None, end=None, damaged=damaged)


def lost_entry(number: int) -> str:
    """Return the message for a record without that entry."""
    return f"entry {number} of the job's record is missing: it was lost, with the checkpoint that it may have been"


def checkpoints_in(store: RecordStore) -> list[Manifest]:
    """Return the readable checkpoints on record, oldest first."""
    found: dict[int, Manifest] = {}
    for number in store.numbers():
        # A subsumed checkpoint may be removed meanwhile.
        with contextlib.suppress(FileNotFoundError, DamagedCheckpointError):
            _, manifest = _decoded(store.read(number), number)
            if manifest is not None:
                found[manifest.checkpoint_id] = manifest
    return [found[checkpoint] for checkpoint in sorted(found)]


def older_in(store: RecordStore, newest: int) -> list[Manifest]:
    """Return the checkpoints on record with a number below `newest`, oldest first."""
    return [manifest for manifest in checkpoints_in(store) if manifest.checkpoint_id < newest]


def job_name_in(store: RecordStore) -> str | None:
    """Return the name of the job, or None. Also reads records of newer versions of penstock."""
    for number in reversed(store.numbers()):
        with contextlib.suppress(OSError, *DECODING_ERRORS):
            name = from_json(store.read(number), _Entry).job_name
            if name:
                return name
    return None


def _decoded(data: bytes, number: int) -> tuple[_Entry, Manifest | None]:
    """Decode an entry, and its manifest if it is a checkpoint.

    Raises DamagedCheckpointError, or CheckpointError if a newer penstock wrote it.
    """
    manifest: Manifest | None = None
    where = f"entry {number} of the job's record"
    try:
        entry = from_json(data, _Entry)
        if entry.kind == _CHECKPOINT:
            manifest = decode(data, where)
        else:
            check_seal(data, where)
    except DECODING_ERRORS as error:
        raise DamagedCheckpointError(f"{where} is damaged: {error}") from error
    if entry.kind not in _KINDS:
        raise CheckpointError(
            f"{where} has the kind '{entry.kind}', which this version of penstock does not know: another version wrote "
            "it"
        )
    if entry.record_number not in (0, number):
        raise DamagedCheckpointError(f"{where} is damaged: it holds entry {entry.record_number}")
    # Manifests have epoch 0 if they were not written by a run.
    return msgspec.structs.replace(entry, epoch=max(entry.epoch, 1)), manifest


class JobRecord:
    """The record of a job as one run of the job writes it, from its first entry or its claim."""

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
        """Whether another run has taken the job over, or its record was deleted."""
        self._is_deleted = False
        self.has_ended = False
        """Whether this run has recorded the end of the job."""
        self.stopped_with = ""
        """The savepoint with which the job stopped, or empty."""
        self._is_unsure = False
        """Whether the store reported a failed write whose entry may exist, or appear later, after our last one."""
        self._store = store
        self._job_name = job_name
        self._last = last
        self._pause = pause
        self._checkpoints: dict[int, int | None] = {}
        """The checkpoint number of each known entry; None: the entry is not a checkpoint."""
        self._entries: dict[int, set[int]] = {}
        """The entry numbers of each checkpoint."""
        self._is_listed = False
        """Whether these are all entries: then the store, which may hold a thousand, is not listed again."""

    @staticmethod
    def claim(store: RecordStore, job_name: str, content: RecordContent | None) -> JobRecord:
        """Take a job over whose record was `content` when it was read. Raises CheckpointError if it changed since."""
        record = JobRecord.try_to_claim(store, job_name, content)
        if record is None:
            raise CheckpointError(
                "the job has continued in the meantime, or another run has taken it over at the same moment: see "
                "penstock list"
            )
        return record

    @staticmethod
    def try_to_claim(store: RecordStore, job_name: str, content: RecordContent | None) -> JobRecord | None:
        """Take a job over like `claim`, but return None if the record changed since."""
        epoch, last = (content.epoch + 1, content.last) if content is not None else (1, 0)
        entry = _Entry(_CLAIM, epoch, record_number=last + 1, job_name=job_name)
        if not store.create(last + 1, seal(entry)):
            return None
        if max(store.numbers(), default=0) > last + 1:
            # Another run has claimed the job after us. Or the number was free because its entry was subsumed and
            # removed: the run has published several entries since, continues after these, and would never find the
            # claim.
            return None
        return JobRecord(store, job_name, epoch, last + 1)

    def publish(self, manifest: Manifest) -> int:
        """Publish a checkpoint, which completes it. Returns the number of its entry. Raises FencedError."""
        # With the epoch of this run, also for a checkpoint of an earlier run that the job fell back to.
        self._append(lambda number: encode(msgspec.structs.replace(manifest, record_number=number, epoch=self.epoch)))
        self._note(self._last, manifest.checkpoint_id)
        return self._last

    def publish_end(self, status: str, savepoint: str = "") -> None:
        """Record the end of the job: from then on nothing is restored from it. Raises FencedError."""
        entry = _Entry(_END, self.epoch, job_name=self._job_name, how=status, stopped_with=savepoint)
        self._append(lambda number: seal(msgspec.structs.replace(entry, record_number=number)))
        self.has_ended, self.stopped_with = True, savepoint

    def publish_savepoint(self, savepoint: str, checkpoint: int) -> None:
        """Record that output is committed with a savepoint: the job is restored from it. Raises FencedError."""
        entry = _Entry(_SAVEPOINT, self.epoch, checkpoint, job_name=self._job_name, path=savepoint)
        self._append(lambda number: seal(msgspec.structs.replace(entry, record_number=number)))

    def forget(self, checkpoint: int) -> None:
        """Remove the entries of a checkpoint other than the newest. Raises FencedError."""
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
        """Find the entries of all checkpoints, up to our last entry: later ones belong to a run that took over."""
        self._entries = {}
        for number in self._store.numbers():
            if number > self._last:
                continue
            if number not in self._checkpoints:
                try:
                    _, manifest = _decoded(self._store.read(number), number)
                except (FileNotFoundError, DamagedCheckpointError):
                    # It was removed, or it is damaged: it may be a claim, so it stays.
                    continue
                self._note(number, manifest.checkpoint_id if manifest is not None else None)
            else:
                self._note(number, self._checkpoints[number])
        self._is_listed = True

    def _note(self, number: int, checkpoint: int | None) -> None:
        """Note the checkpoint of an entry, or that it is not a checkpoint."""
        self._checkpoints[number] = checkpoint
        if checkpoint is not None:
            self._entries.setdefault(checkpoint, set()).add(number)

    def is_taken_over(self) -> bool:
        """Whether another run has created the entry after our last one. Raises OSError."""
        with contextlib.suppress(DamagedCheckpointError):
            return self._epoch_at(self._last + 1) not in (self.epoch, None)
        return False

    def may_remove(self, name: str, former_only: bool) -> bool:
        """Whether a state file cannot be one of a later run. `former_only`: nor one of this run."""
        epoch = epoch_of(name)
        return epoch < self.epoch or (epoch == self.epoch and not former_only)

    def check(self) -> None:
        """Check that this run may write or remove. Raises FencedError if another run is known to hold the job.

        Raises OSError if it is unknown whether an entry was written.
        """
        self.check_fenced()
        if self._is_unsure:
            self._settle()

    def check_fenced(self) -> None:
        """Raise FencedError if the job is known to be taken over, or its record to be deleted."""
        if self.is_fenced:
            why = "the record of this job was deleted, with its checkpoint directory or in it"
            if not self._is_deleted:
                why = "another run has taken this job over"
            raise FencedError(f"{why}: this run may no longer write to the job's storage")

    def _settle(self) -> None:
        """Find out whether an entry exists, and prevent that it appears later. Raises OSError, FencedError.

        Done before anything is written or removed: the entry may name the only checkpoint of the job.
        """
        number = self._last + 1
        if not self._store.create(number, seal(_Entry(_VOID, self.epoch, record_number=number))):
            epoch = self._epoch_at(number)
            self.is_fenced, self._is_deleted = epoch != self.epoch, epoch is None
            self.check_fenced()
        self._last, self._is_unsure, self._is_listed = number, False, False

    def _append(self, entry: Callable[[int], bytes]) -> None:
        """Create the entry after the last one. `entry` returns its content for its number."""
        self.check()
        while not self._create(self._last + 1, entry(self._last + 1)):
            epoch = self._epoch_at(self._last + 1)
            if epoch != self.epoch:
                self.is_fenced = True
                self._is_deleted = epoch is None
                self.check()
            # Our own entry, from a write that was reported as failed: it may name a checkpoint.
            self._last += 1
            self._is_listed = False
        self._last += 1

    def _create(self, number: int, data: bytes) -> bool:
        try:
            return self._store.create(number, data)
        except OSError:
            # The entry may exist nevertheless, or appear later, and then it counts. So we create a void entry with its
            # number: either this succeeds, or our entry exists.
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
        """Return the epoch of the run that created an entry. None: the entry or the whole record does not exist."""
        try:
            entry, _ = _decoded(self._store.read(number), number)
        except FileNotFoundError:
            return None
        return entry.epoch
