"""RocksDB as the key-value store of tasks, through rocksdict. Each subtask of an operator has a database of its own.

A database holds working state only; durable state is in snapshots. So it writes no log, and its directory is removed
when the operator is closed, or by the next job on this disk if the worker was killed (common/files/held_directory.py).
"""

from __future__ import annotations

import contextlib
import itertools
import re
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rocksdict import (
    BlockBasedOptions,
    Cache,
    Checkpoint,
    IngestExternalFileOptions,
    Options,
    Rdict,
    RdictIter,
    ReadOptions,
    SstFileWriter,
    WriteBatch,
    WriteOptions,
)

from penstock.common.configuration import options
from penstock.common.errors import JobError
from penstock.common.files.held_directory import HeldDirectory, remove_abandoned
from penstock.engine.runtime.task.vertex import RocksDBSettings
from penstock.engine.state.backends.rocksdb.store import StoredFile, Stores, after
from penstock.engine.stores.shared_copies import put_files

_BATCH_ENTRIES = 1_000
_TABLE_BYTES = 64 << 20
"""Of a file that is ingested: RocksDB's own default for the files of a level."""
_BUFFERS = 2


class RocksView:
    """A database as of one moment.

    It is made of iterators, which read the database as of their creation: the snapshots of rocksdict do not.
    """

    def __init__(self, database: Rdict) -> None:
        self._looking_up = database.iter()
        self._walking = database.iter()

    def get(self, key: bytes) -> bytes | None:
        """The value of a key; None if there is none."""
        position = self._looking_up
        position.seek(key)
        if not position.valid():
            # At the end, or where a file can't be read: then it raises that.
            position.status()
            return None
        if position.key() != key:
            return None
        value: bytes = position.value()
        return value

    def items(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All entries whose keys begin with `prefix`, sorted by key. Only one such iteration at a time."""
        return _from(self._walking, prefix)


def _from(position: RdictIter, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    position.seek(prefix)
    while position.valid():
        key: Any = position.key()
        if not key.startswith(prefix):
            return
        value: Any = position.value()
        yield key, value
        position.next()
    position.status()


def _is_table(name: str) -> bool:
    """Whether a file is one of a table: RocksDB does not write to these again, or reuse their names."""
    return name.endswith(".sst")


def _shareable(files: Mapping[str, StoredFile]) -> dict[str, StoredFile]:
    """The same, where only those have an identity that never change."""
    return {name: file if _is_table(name) else file._replace(identity="") for name, file in files.items()}


class RocksFiles:
    """A RocksDB checkpoint: hard links to the files of its tables, which stay when the database compacts its own."""

    def __init__(self, path: Path, held: HeldDirectory) -> None:
        self._path = path
        self._held = held
        self.sizes = {file.name: file.stat().st_size for file in sorted(self._path.iterdir())}

    def is_lasting(self, name: str) -> bool:
        """Whether a file never changes."""
        return _is_table(name)

    def read(self, name: str, offset: int, length: int) -> bytes:
        """`length` bytes of a file, from `offset`."""
        with (self._path / name).open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def release(self) -> None:
        """Remove the links."""
        shutil.rmtree(self._path, ignore_errors=True)
        self._held.remove_if_empty()


class RocksStore:
    """A database in a temporary directory below `directory`; `memory_bytes` for its buffers and its cache.

    `files`: those that it starts with, by name; empty for an empty database. `counts`: whether RocksDB counts what it
    does, for `keys_skipped`.
    """

    def __init__(
        self, directory: str, memory_bytes: int, files: Mapping[str, StoredFile], counts: bool = False
    ) -> None:
        self._held = HeldDirectory("rocksdb", directory)
        self._path = Path(self._held.path) / "database"
        self._path.mkdir()
        self._links = itertools.count(1)
        # Links are made by another thread: the database must not be closed in the middle of one.
        self._linking = threading.Lock()
        try:
            put_files(_shareable(files), self._path, directory)
        except BaseException:
            # A restore that fails is tried again: each try would leave a copy of the state.
            self._held.remove()
            raise
        rocks_options = Options(raw_mode=True)
        rocks_options.create_if_missing(True)
        if counts:
            rocks_options.enable_statistics()
        rocks_options.set_write_buffer_size(max(memory_bytes // 2 // _BUFFERS, 1 << 20))
        rocks_options.set_max_write_buffer_number(_BUFFERS)
        # Files of 64 MB, 128 MB, 256 MB ... from level to level: a manifest names each of them.
        rocks_options.set_target_file_size_multiplier(2)
        tables = BlockBasedOptions()
        tables.set_block_cache(Cache(max(memory_bytes // 2, 1 << 20)))
        tables.set_bloom_filter(10, block_based=False)
        rocks_options.set_block_based_table_factory(tables)
        self._options = rocks_options
        with self._telling():
            self._database = Rdict(str(self._path), rocks_options)
        self._without_log = WriteOptions()
        self._without_log.disable_wal = True  # type: ignore[method-assign,assignment]
        self._moving = IngestExternalFileOptions()
        self._moving.set_move_files(True)

    def get(self, key: bytes) -> bytes | None:
        """The value of a key; None if there is none."""
        value: bytes | None = self._database.get(key)
        return value

    def items(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """All entries whose keys begin with `prefix`, as they are at the call, sorted by key.

        `start`: only those whose keys are not before this one.
        """
        begin = max(prefix, start)
        # Without a bound RocksDB looks for the next key behind the prefix, and reads all tombstones on its way there.
        bounded = ReadOptions()
        bounded.set_iterate_upper_bound(after(prefix))
        return self._whole(self._database.items(from_key=begin, read_opt=bounded), bounded, begin)

    def _whole(self, entries: Any, bounded: ReadOptions, begin: bytes) -> Iterator[tuple[bytes, bytes]]:
        last = None
        for entry in entries:
            last = entry[0]
            yield entry
        # It ends at the end, and where a file can't be read, without an error.
        position = self._database.iter(bounded)
        position.seek(begin if last is None else last)
        if last is not None and position.valid():
            position.next()
        if not position.valid():
            position.status()

    def write(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Store values; a value of None removes its key."""
        batch = WriteBatch(raw_mode=True)
        for key, value in entries:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
            if batch.len() >= _BATCH_ENTRIES:
                self._write(batch)
                batch = WriteBatch(raw_mode=True)
        if batch.len():
            self._write(batch)

    def ingest(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Store values of keys that ascend and are not there yet, as files of tables that are complete at once."""
        rest = iter(entries)
        for number in itertools.count():
            # Several, as RocksDB would write them: one large file would be compacted as a whole.
            path = str(self._path.with_name(f"ingested-{number}.sst"))
            with self._telling():
                if not _write_table(path, self._options, rest):
                    return
                self._database.ingest_external_file([path], self._moving)

    def view(self) -> RocksView:
        """The database as of now."""
        return RocksView(self._database)

    def link(self) -> RocksFiles:
        """Its files, after RocksDB has flushed its write buffers. May be called by another thread than the others."""
        path = self._path.with_name(f"links-{next(self._links)}")
        with self._linking, self._telling():
            # By itself: `create_checkpoint` would do it, too, but it holds the interpreter meanwhile (0.7 s for 50 MB).
            self._database.flush(wait=True)
            Checkpoint(self._database).create_checkpoint(str(path))
        return RocksFiles(path, self._held)

    def remove_range(self, first: bytes, after: bytes) -> None:
        """Remove all entries whose keys are not before `first`, and before `after`."""
        self._database.delete_range(first, after, self._without_log)

    def keys_skipped(self) -> int:
        """Over how many tombstones and older values iterators have passed so far. Needs `counts`."""
        found = re.search(r"rocksdb\.number\.iter\.skip COUNT : (\d+)", self._options.get_statistics() or "")
        if found is None:
            raise ValueError("the database does not count: open it with counts=True")
        return int(found[1])

    def close(self) -> None:
        """Close the database and remove its directory. Links that `link` has made stay."""
        with self._linking:
            self._database.close()
        shutil.rmtree(self._path, ignore_errors=True)
        self._held.remove_if_empty()

    def _write(self, batch: WriteBatch) -> None:
        with self._telling():
            self._database.write(batch, self._without_log)

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Errors of RocksDB's, which are bare Exceptions, in words. Those of penstock and of disks pass."""
        try:
            yield
        except Exception as error:
            if type(error) is not Exception:
                raise
            raise JobError(
                f"state can't be written to RocksDB in {self._path}: {error}. If its disk is full: free some space, or "
                f"set {options.ROCKSDB_DIRECTORY.key} to a directory on another one"
            ) from error


def _write_table(path: str, options: Options, entries: Iterator[tuple[bytes, bytes]]) -> bool:
    """Write the next entries into a file of a table, until it is full. False: there were none, and there is no file."""
    first = next(entries, None)
    if first is None:
        return False
    writer = SstFileWriter(options)
    writer.open(path)
    written = 0
    for key, value in itertools.chain([first], entries):
        writer[key] = value
        written += len(key) + len(value)
        if written >= _TABLE_BYTES:
            break
    writer.finish()
    return True


def rocksdb_stores(settings: RocksDBSettings) -> Stores:
    """Stores for the tasks of a slot. Removes the databases of workers that were killed."""
    directory = settings.directory or tempfile.gettempdir()
    Path(directory).mkdir(parents=True, exist_ok=True)
    remove_abandoned(directory)
    return Stores(partial(RocksStore, directory, settings.memory_bytes), settings.cached_entries, settings.holds_timers)
