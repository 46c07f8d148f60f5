"""Random programs on bounded streams give what plain loops give: as DataFrames, as operators, and in the simulator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyarrow import parquet
from tests.first_cases import first_of
from tests.spark.bounded_programs import KINDS, Program, Values, compared, declared, random_program, random_table
from tests.spark.jobs import collect
from tests.spark.test_bounded_frames import batch_environment, spark

from penstock.common import Row, WatermarkStrategy
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import BulkFormat, FileSource

pytestmark = pytest.mark.spark
__all__ = ["spark"]
PROGRAMS_OF_A_JOB = 6
ZONES = ["UTC", "America/New_York", "Asia/Kolkata"]


class Sources:
    """Makes the sources of programs, each for all environments."""

    def __init__(self, session: Any, envs: Mapping[str, StreamExecutionEnvironment], folder: Path) -> None:
        self._session = session
        self._envs = envs
        self._folder = folder

    def __call__(self, dice: Random) -> Program:
        table, kinds, rows = random_table(dice, most_rows=12)
        how = dice.choice(["frame", "frame", "frame", "table", "collection", "files"])
        read = getattr(self, f"_{how}")(table, kinds, rows)
        return Program({way: read(env) for way, env in self._envs.items()}, rows, kinds, (f"{how} {kinds}",))

    def _frame(self, table: Any, kinds: dict[str, str], rows: list[Values]) -> Callable[[Any], DataStream[Any]]:
        schema = ", ".join(f"`{name}` {KINDS[kind].spark}" for name, kind in kinds.items())
        frame = self._session.createDataFrame(table, schema).coalesce(2)
        return lambda env: env.from_data_frame(frame)

    def _table(self, table: Any, kinds: dict[str, str], rows: list[Values]) -> Callable[[Any], DataStream[Any]]:
        return lambda env: env.from_data_frame(table)

    def _collection(self, table: Any, kinds: dict[str, str], rows: list[Values]) -> Callable[[Any], DataStream[Any]]:
        records = [Row(**dict(zip(kinds, row, strict=True))) for row in rows]
        return lambda env: env.from_collection(records, declared(kinds))

    def _files(self, table: Any, kinds: dict[str, str], rows: list[Values]) -> Callable[[Any], DataStream[Any]]:
        folder = self._folder / str(len(list(self._folder.iterdir())))
        folder.mkdir()
        half = len(table) // 2
        for name, part in (("a", table.slice(0, half)), ("b", table.slice(half))):
            parquet.write_table(part, folder / f"{name}.parquet")
        form = BulkFormat.parquet_format(declared(kinds), as_row=True)
        source = FileSource.for_bulk_file_format(form, folder).build()
        return lambda env: env.from_source(source, WatermarkStrategy.no_watermarks(), "Files")


def results_of(programs: list[Program], way: str) -> dict[int, list[Values]]:
    """Run programs as one job, and return the rows of each."""
    streams = [
        program.streams[way].map(lambda row, number=number: (number, tuple(row)))
        for number, program in enumerate(programs)
    ]
    found: dict[int, list[Values]] = defaultdict(list)
    for number, row in collect(streams[0].union(*streams[1:])):
        found[number].append(row)
    return found


@pytest.mark.parametrize("seed", first_of(1, range(1, 200)))
def test_random_programs_give_what_plain_loops_give(spark: Any, seed: int, tmp_path: Path) -> None:
    """A user would get other rows, or values of other types, from one of the ways in which a program runs."""
    dice = Random(seed)
    settings = {
        "spark.sql.session.timeZone": dice.choice(ZONES),
        "spark.sql.ansi.enabled": dice.choice(["true", "false"]),
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    ways = ["frames"] if seed % 3 else ["frames", "operators"]
    try:
        sources = Sources(spark, {way: batch_environment(way) for way in ways}, tmp_path)
        programs = [random_program(dice, sources) for _ in range(PROGRAMS_OF_A_JOB)]
        assert any(program.rows for program in programs)
        for way in ways:
            found = results_of(programs, way)
            for number, program in enumerate(programs):
                expected, got = compared(program.rows), compared(found[number])
                assert got == expected, (
                    f"{way}: {program.operations}\nmissing {expected - got}\ntoo many {got - expected}"
                )
    finally:
        for key in settings:
            spark.conf.unset(key)
