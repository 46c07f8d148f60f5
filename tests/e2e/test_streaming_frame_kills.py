"""Random kills of workers and the driver of a job on a streaming DataFrame: each row comes once, each count is once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.e2e import frame_to_files
from tests.e2e.frame_to_files import KEYS
from tests.e2e.test_postgres_kills import DRIVER, WORKER, Counts
from tests.spark.test_lost_workers import visible

pytestmark = [pytest.mark.own_jvm, pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]

KILLS = 6
ROWS = 24_000
ROWS_IN_FILE = 200


class CountsOfFrame(Counts):
    """It reads the files that the test adds, without an end."""

    program = frame_to_files.__file__
    added = 0

    def __init__(self, folder: Path) -> None:
        self.server = None
        self.folder = folder
        self.expected = ROWS
        self.arguments = [str(folder)]
        (folder / "in").mkdir()
        self.start()

    def add(self, number: int) -> None:
        """Add so many rows, in files of which each is there as a whole."""
        for first in range(self.added, self.added + number, ROWS_IN_FILE):
            hidden = self.folder / "in" / f".{first:06}.json"
            hidden.write_text("".join(f'{{"id": {id}}}\n' for id in range(first, first + ROWS_IN_FILE)))
            hidden.rename(self.folder / "in" / f"{first:06}.json")
        self.added += number

    def rows(self) -> list[tuple[Any, ...]]:
        """What is committed now: the key, the row's number, how many of the key there were."""
        lines = (line for path in visible(self.folder / "out") for line in path.read_text().splitlines())
        return [tuple(map(int, line.split())) for line in lines]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_row_comes_once(tmp_path: Path, seed: int) -> None:
    """The job goes on from its checkpoint, Spark's query from its own: rows in between would be lost or doubled."""
    random = Random(seed)
    kinds = [WORKER, DRIVER, *random.choices((WORKER, DRIVER), k=KILLS - 2)]
    random.shuffle(kinds)
    counts = CountsOfFrame(tmp_path)
    try:
        killed: Counter[str] = Counter()
        for kind in kinds:
            begun = len(counts.rows())
            counts.add(ROWS // (KILLS + 2))
            more = begun + random.randrange(counts.added - begun)
            counts.until(lambda more=more: len(counts.rows()) >= more)  # type: ignore[misc]
            killed[kind] += counts.kill(kind, random)
        counts.add(ROWS - counts.added)
        counts.until(lambda: len(counts.rows()) >= ROWS)
        rows = counts.rows()
    finally:
        counts.end()
    # What a run without faults gives: each row once, and of a key each count once.
    ids = Counter(row[1] for row in rows)
    by_key = Counter((row[0], row[2]) for row in rows)
    wrong = [row for row in rows if row[0] != row[1] % KEYS]
    lost = sum(id not in ids for id in range(ROWS))
    doubled = sum(number - 1 for number in ids.values())
    print(f"seed {seed}: killed {dict(killed)}, {len(rows)} rows, lost {lost}, doubled {doubled}")
    assert (lost, doubled, wrong) == (0, 0, []), counts.story()
    assert by_key == Counter((key, count) for key in range(KEYS) for count in range(1, ROWS // KEYS + 1))
    assert killed[WORKER] and killed[DRIVER] and sum(killed.values()) == KILLS
