"""RocksDB as the key-value store of tasks, through rocksdict. Each subtask of an operator has its own database.

A database holds only working state; durable state is in snapshots. So it writes no log, and its directory is removed
when the operator closes, or by the next job on this disk if the worker was killed (common/files/held_directory.py).
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
from penstock.engine.state.backends.rocksdb.backend import Stores
from penstock.engine.state.backends.rocksdb.store import StoredFile, prefix_end
from penstock.engine.stores.shared_copies import put_files

_BATCH_ENTRIES = 1_000
_TABLE_BYTES = 64 << 20
"""Size of an ingested file: RocksDB's default for files of a level."""
_BUFFERS = 2


class RocksView:
    """The content of a database at one moment.

    It uses iterators, which read the database as of their creation; snapshots of rocksdict do not.
    """

    def __init__(self, database: Rdict) -> None:
        self._lookups = database.iter()
        self._scans = database.iter()

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""
        position = self._lookups
        position.seek(key)
        if not position.valid():
            # At the end, or where a file cannot be read: then this raises the error.
            position.status()
            return None
        if position.key() != key:
            return None
        value: bytes = position.value()
        return value

    def items(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Return all entries whose keys start with `prefix`, sorted by key. Only one iteration at a time."""
        return _from(self._scans, prefix)


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
    """Whether it is a table file: RocksDB never changes these, or reuses their names."""
    return name.endswith(".sst")


def _shareable(files: Mapping[str, StoredFile]) -> dict[str, StoredFile]:
    """Return the files without the identities of files that may change."""
    return {name: file if _is_table(name) else file._replace(identity="") for name, file in files.items()}


class RocksFiles:
    """A RocksDB checkpoint: hard links to the files, which stay when the database compacts its own."""

    def __init__(self, path: Path, held: HeldDirectory) -> None:
        self._path = path
        self._held = held
        self.sizes = {file.name: file.stat().st_size for file in sorted(self._path.iterdir())}

    def is_lasting(self, name: str) -> bool:
        """Whether a file never changes."""
        return _is_table(name)

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Read `length` bytes of a file from `offset` on."""
        with (self._path / name).open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def release(self) -> None:
        """Remove the links."""
        shutil.rmtree(self._path, ignore_errors=True)
        self._held.remove_if_empty()


class RocksStore:
    """A database in a temporary directory below `directory`, with `memory_bytes` for its buffers and cache.

    `files`: the files with which it starts, by name; empty for an empty database. `counts`: whether RocksDB collects
    statistics, which `keys_skipped` needs.
    """

    def __init__(
        self, directory: str, memory_bytes: int, files: Mapping[str, StoredFile], counts: bool = False
    ) -> None:
        self._held = HeldDirectory("rocksdb", directory)
        self._path = Path(self._held.path) / "database"
        self._path.mkdir()
        self._links = itertools.count(1)
        # Another thread creates links: the database must not be closed meanwhile.
        self._linking = threading.Lock()
        try:
            put_files(_shareable(files), self._path, directory)
        except BaseException:
            # A failed restore is repeated: each attempt would leave a copy of the state.
            self._held.remove()
            raise
        rocks_options = Options(raw_mode=True)
        rocks_options.create_if_missing(True)
        if counts:
            rocks_options.enable_statistics()
        rocks_options.set_write_buffer_size(max(memory_bytes // 2 // _BUFFERS, 1 << 20))
        rocks_options.set_max_write_buffer_number(_BUFFERS)
        # Files of 64 MB, 128 MB, 256 MB ... from level to level: fewer files, since a manifest names each.
        rocks_options.set_target_file_size_multiplier(2)
        tables = BlockBasedOptions()
        tables.set_block_cache(Cache(max(memory_bytes // 2, 1 << 20)))
        tables.set_bloom_filter(10, block_based=False)
        rocks_options.set_block_based_table_factory(tables)
        self._options = rocks_options
        with self._explaining_errors():
            self._database = Rdict(str(self._path), rocks_options)
        self._without_log = WriteOptions()
        self._without_log.disable_wal = True  # type: ignore[method-assign,assignment]
        self._moving = IngestExternalFileOptions()
        self._moving.set_move_files(True)

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""
        value: bytes | None = self._database.get(key)
        return value

    def items(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Return the current entries whose keys start with `prefix`, sorted by key.

        `start`: the first key to return.
        """
        begin = max(prefix, start)
        # Without a bound RocksDB searches the next key after the prefix, and reads all tombstones on the way.
        bounded = ReadOptions()
        bounded.set_iterate_upper_bound(prefix_end(prefix))
        return self._checked(self._database.items(from_key=begin, read_opt=bounded), bounded, begin)

    def _checked(self, entries: Any, bounded: ReadOptions, begin: bytes) -> Iterator[tuple[bytes, bytes]]:
        last = None
        for entry in entries:
            last = entry[0]
            yield entry
        # The iteration ends without an error at the end, and also where a file cannot be read.
        position = self._database.iter(bounded)
        position.seek(begin if last is None else last)
        if last is not None and position.valid():
            position.next()
        if not position.valid():
            position.status()

    def write(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Store values; None removes a key."""
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
        """Store values of new keys in ascending order, as complete table files."""
        rest = iter(entries)
        for number in itertools.count():
            # Several files, as RocksDB would write them: one large file would be compacted as a whole.
            path = str(self._path.with_name(f"ingested-{number}.sst"))
            with self._explaining_errors():
                if not _write_table(path, self._options, rest):
                    return
                self._database.ingest_external_file([path], self._moving)

    def view(self) -> RocksView:
        """Return a view of the current content."""
        return RocksView(self._database)

    def link(self) -> RocksFiles:
        """Link the files after RocksDB has flushed its write buffers. May be called by another thread."""
        path = self._path.with_name(f"links-{next(self._links)}")
        with self._linking, self._explaining_errors():
            # Flushed separately: `create_checkpoint` would block the interpreter during the flush (0.7 s for 50 MB).
            self._database.flush(wait=True)
            Checkpoint(self._database).create_checkpoint(str(path))
        return RocksFiles(path, self._held)

    def remove_range(self, first: bytes, after: bytes) -> None:
        """Remove all entries with keys from `first` to before `after`."""
        self._database.delete_range(first, after, self._without_log)

    def keys_skipped(self) -> int:
        """Return how many tombstones and older values iterators have skipped so far. Needs `counts`."""
        found = re.search(r"rocksdb\.number\.iter\.skip COUNT : (\d+)", self._options.get_statistics() or "")
        if found is None:
            raise ValueError("the database does not collect statistics: open it with counts=True")
        return int(found[1])

    def close(self) -> None:
        """Close the database and remove its directory. Links of `link` stay."""
        with self._linking:
            self._database.close()
        shutil.rmtree(self._path, ignore_errors=True)
        self._held.remove_if_empty()

    def _write(self, batch: WriteBatch) -> None:
        with self._explaining_errors():
            self._database.write(batch, self._without_log)

    @contextlib.contextmanager
    def _explaining_errors(self) -> Iterator[None]:
        """Turn RocksDB's errors, which are bare Exceptions, into JobErrors. Other errors pass."""
        try:
            yield
        except Exception as error:
            if type(error) is not Exception:
                raise
            raise JobError(
                f"state can't be written to RocksDB in {self._path}: {error}. If its disk is full: free some space, or "
                f"set {options.ROCKSDB_DIRECTORY.key} to a directory on another disk"
            ) from error


def _write_table(path: str, options: Options, entries: Iterator[tuple[bytes, bytes]]) -> bool:
    """Write the next entries into a table file, until it is full. Returns False, without a file, if there are none."""
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
    """Return stores for the tasks of a slot. Removes the databases of killed workers."""
    directory = settings.directory or tempfile.gettempdir()
    Path(directory).mkdir(parents=True, exist_ok=True)
    remove_abandoned(directory)
    return Stores(partial(RocksStore, directory, settings.memory_bytes), settings.cached_entries, settings.holds_timers)
