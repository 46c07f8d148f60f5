"""The files that hold the keyed state of an operator's subtask, and when to begin with a full one again."""

from __future__ import annotations

from penstock.engine.state.handles import KeyedFile, store_files_of

_CHAIN_FILES_MAX = 40


class KeyedChain:
    """The files that make up an operator's keyed state in one subtask: a full one, then increments, oldest first."""

    growth_max = 1.0
    """The next snapshot is full when the increments exceed this multiple of the full file's size."""

    def __init__(self) -> None:
        self.files: list[KeyedFile] = []
        self.store_files: dict[str, KeyedFile] = {}
        """The store's files that the last full snapshot copied; those that the store still has are not copied again."""
        self.has_gap = False
        """Whether changes since the last file are missing here: they went into a savepoint, or could not be written."""
        self.failures = 0
        """How many snapshots failed. An increment frozen before a failure builds on changes that are in no file."""
        self.store_snapshots_under_way = 0
        """How many snapshots with the files of the store are frozen and not yet written."""

    @property
    def next_is_full(self) -> bool:
        """Whether to write all state: the increments have become as large as the full file, or too many."""
        own = [file for file in self.files if not file.store_file]
        # A restore reads the whole chain, so its length bounds the time of a restore and the number of files.
        if self.has_gap or not own or len(own) >= _CHAIN_FILES_MAX:
            return True
        full = own[0].bytes + sum(file.bytes for file in store_files_of(self.files))
        return sum(file.bytes for file in own[1:]) > full * self.growth_max
