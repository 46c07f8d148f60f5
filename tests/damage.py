"""Damages all that jobs store: bits flip, files end early, files and blocks change places. Is each damage told?

    python -m tests.damage --count 100000 --seed 1

A damage is *told* if what reads the file raises DamagedCheckpointError and names the file. *Silent* is the one that
must not be: something else is read than was written. *Unseen* is a byte that nobody looks at; *misnamed* is any other
error.
The snapshots are those of tests/data/formats: of a job that keeps everything a job can keep, on the heap and in
RocksDB, as checkpoints and savepoints, as this penstock writes them and as version 2 has left them.
"""

from __future__ import annotations

import argparse
import pickle
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.data.formats import program
from tests.data.formats.program import DIRECTORY, SNAPSHOTS, graph_of, snapshot_in, stores_of, working_directory
from tests.data.formats.running import Running

from penstock.common.errors import DamagedCheckpointError
from penstock.engine.checkpoint.manifest import Manifest, unpacked
from penstock.engine.checkpoint.storage import METADATA, files_directory, read_manifest
from penstock.engine.snapshots.snapshot_files import SnapshotFiles
from penstock.engine.state.handles import KeyedFile, ListInFile
from penstock.engine.state.snapshot.files import read_items, read_keyed

WAYS = ("flip", "truncation", "swap of blocks", "swap of files")


class Stored(NamedTuple):
    """A file of a snapshot, and what reads it. `name` is what an error has to call it."""

    kind: str
    path: Path
    name: str
    read: Callable[[], bytes]


def write_snapshots(directory: Path) -> Iterator[Path]:
    """Runs the job, once for each snapshot; yields the snapshots: two of each job, since a file may change places."""
    for name in SNAPSHOTS:
        with working_directory():
            job = Running(graph_of(name, DIRECTORY), directory / name, stores=stores_of(name))
            for number in (1, 2, 3):
                job.step()
                savepoint = name.startswith("savepoint") and number > 1
                snapshot = directory / name / (f"savepoint-{number}" if savepoint else f"chk-{number}")
                job.snapshot(number, str(snapshot) if savepoint else "")
                if not savepoint:
                    job.complete(number)
                if number > 1:
                    yield snapshot


def earlier_snapshots(directory: Path) -> Iterator[Path]:
    """Copies of the snapshots of version 2 that are kept with the tests."""
    for name in SNAPSHOTS:
        kept = Path(program.__file__).parent / "version-2" / name
        yield snapshot_in(shutil.copytree(kept, directory / "version-2" / name))


def files_of_snapshot(snapshot: Path) -> Iterator[Stored]:
    """All of its files."""
    manifest = read_manifest(str(snapshot))
    files = SnapshotFiles(files_directory(str(snapshot), manifest))

    def read_whole() -> bytes:
        found = read_manifest(str(snapshot))
        if found != manifest:
            # Another manifest, undamaged: does what it names fit?
            for reading in readings_of(found, files):
                reading[-1]()
        texts = [*found.enumerators.values(), *(text for texts in found.commits.values() for text in texts)]
        return pickle.dumps([found, *map(unpacked, texts)])

    yield Stored("manifest", snapshot / METADATA, str(snapshot / METADATA), read_whole)
    for kind, path, read in readings_of(manifest, files):
        yield Stored(kind, Path(files.directory) / path, path, read)


Reading = tuple[str, str, Callable[[], bytes]]
"""Kind and path of a file, and what reads it and all that is read with it."""


def readings_of(manifest: Manifest, files: SnapshotFiles) -> Iterator[Reading]:
    """Those of all files that the manifest names."""
    states = [part.state for operator in manifest.operators for part in operator.subtasks]
    for state in states:
        for file in state.keyed:
            if file.bytes:
                yield kind_of(file), file.path, partial(read_chain, files.directory, state.keyed)
        for one in state.lists.lists if state.lists is not None else []:
            if one.columns is not None:
                yield "list, Parquet", one.columns.path, partial(read_lists, files, "", [one])
        if state.lists is not None and state.lists.path:
            in_file = [one for one in state.lists.lists if one.columns is None]
            yield "lists", state.lists.path, partial(read_lists, files, state.lists.path, in_file)


def kind_of(file: KeyedFile) -> str:
    if file.store_file:
        return "RocksDB, " + ("table" if file.store_file.endswith(".sst") else "other")
    return "keyed state, Parquet" if file.columns else "keyed state"


def read_chain(directory: str, chain: list[KeyedFile]) -> bytes:
    """All of a chain, whichever key groups it is of."""
    # With a reader of its own: it keeps the store open that it has read last.
    files = SnapshotFiles(directory)
    tables = {table.name for file in chain for table in file.tables}
    groups = range(8)
    try:
        return pickle.dumps([part[:3] for part in read_keyed(files, chain, groups, tables, files.store_reader)])
    finally:
        files.store_reader.close()


def read_lists(files: SnapshotFiles, path: str, lists: list[ListInFile]) -> bytes:
    """These lists, of one file."""
    return pickle.dumps([read_items(files, path, one) for one in lists])


class Damages:
    """Damages one file after the other, and makes it whole again."""

    def __init__(self, stored: list[Stored], random: Random) -> None:
        self.by_kind: dict[str, list[Stored]] = {}
        for file in stored:
            self.by_kind.setdefault(file.kind, []).append(file)
        self.counts: Counter[tuple[str, str, str]] = Counter()
        """By kind, way and outcome."""
        self.stories: list[str] = []
        """Of all that were not told."""
        self._random = random
        self._whole = {file.path: file.path.read_bytes() for file in stored}
        self._read: dict[Stored, bytes] = {}

    def run(self, count: int) -> None:
        """So many damages, evenly over kinds of files and ways of damage."""
        kinds = sorted(self.by_kind)
        done = number = 0
        while done < count:
            kind, way = kinds[number % len(kinds)], WAYS[number // len(kinds) % len(WAYS)]
            number += 1
            file = self._random.choice(self.by_kind[kind])
            damaged, story = self._damaged(file, way)
            # Else two equal blocks or files have changed places, or a file goes on behind what was written.
            if not damaged.startswith(self._whole[file.path]):
                done += 1
                outcome, error = self._outcome(file, damaged)
                self.counts[kind, way, outcome] += 1
                if outcome != "told":
                    self.stories.append(f"{outcome}: {file.path}: {story}: {error!r}")

    def _damaged(self, file: Stored, way: str) -> tuple[bytes, str]:
        random, data = self._random, bytearray(self._whole[file.path])
        if way == "flip":
            bits = random.sample(range(len(data) * 8), random.choice((1, 1, 1, 2, 3)))
            for bit in bits:
                data[bit // 8] ^= 1 << bit % 8
            return bytes(data), f"bits {bits}"
        if way == "truncation":
            length = random.randrange(len(data))
            return bytes(data[:length]), f"{length} of {len(data)} bytes"
        if way == "swap of blocks":
            size = random.randint(1, max(len(data) // 4, 1))
            first = random.randint(0, len(data) - size)
            second = random.randint(0, len(data) - size)
            one, other = data[first : first + size], data[second : second + size]
            data[first : first + size] = other
            data[second : second + size] = one
            return bytes(data), f"{size} bytes at {first} and {second}"
        other_file = random.choice(self.by_kind[file.kind])
        return self._whole[other_file.path], f"{other_file.path}"

    def _outcome(self, file: Stored, data: bytes) -> tuple[str, Exception | None]:
        # Read before it is damaged, once.
        whole = self._read.get(file) or self._read.setdefault(file, file.read())
        file.path.write_bytes(data)
        try:
            found = file.read()
        except DamagedCheckpointError as error:
            return ("told" if file.name in str(error) or file.kind == "manifest" else "misnamed"), error
        except Exception as error:
            return "misnamed", error
        finally:
            file.path.write_bytes(self._whole[file.path])
        return ("unseen" if found == whole else "silent"), None


def damage(directory: Path, count: int, seed: int) -> Damages:
    """Write snapshots below `directory` and damage them."""
    snapshots = [*write_snapshots(directory), *earlier_snapshots(directory)]
    damages = Damages([file for snapshot in snapshots for file in files_of_snapshot(snapshot)], Random(seed))
    damages.run(count)
    return damages


def table(counts: Counter[tuple[str, str, str]]) -> str:
    """The outcomes, by kind and way."""
    outcomes = sorted({outcome for _, _, outcome in counts})
    lines = [f"{'file':<22}{'damage':<16}" + "".join(f"{outcome:>12}" for outcome in outcomes)]
    for kind, way in sorted({(kind, way) for kind, way, _ in counts}):
        lines.append(f"{kind:<22}{way:<16}" + "".join(f"{counts[kind, way, outcome]:>12,}" for outcome in outcomes))
    totals = Counter(outcome for _, _, outcome in counts.elements())
    lines.append(f"{'all':<38}" + "".join(f"{totals[outcome]:>12,}" for outcome in outcomes))
    return "\n".join(lines)


def main() -> int:
    """The exit code is 1 if a damage was not told."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    arguments.add_argument("--count", type=int, default=100_000)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-damage-") as directory:
        damages = damage(Path(directory), given.count, given.seed)
    print(table(damages.counts))
    print(*damages.stories[:20], sep="\n")
    return 1 if damages.stories else 0


if __name__ == "__main__":
    sys.exit(main())
