"""Batched word count over text: penstock, PySpark's RDDs, PySpark's DataFrames with a Python split. Item 10.

Each one counts the same file, writes the counts to text files, and is timed from the call that starts the job to its
end, in a session that has already run a small job: start-up time is excluded.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from operator import add
from pathlib import Path
from typing import Any

from benchmarks.measurement import tell
from benchmarks.process_tree import usage
from penstock.common.configuration.choices import RuntimeExecutionMode
from penstock.datastream import StreamExecutionEnvironment

_WORDS = 50_000
_WORDS_PER_LINE = 12
_BLOCK_LINES = 20_000
_SMALL_MB = 1


def text_file(directory: Path, megabytes: int) -> Path:
    """Return a file of that size, created once: words by Zipf's law, with a fixed seed."""
    path = directory / f"words-{megabytes}mb.txt"
    size = megabytes * 1_000_000
    if path.exists() and path.stat().st_size >= size:
        return path
    chance = random.Random(1)
    words = ["".join(chance.choices("etaoinshrdlu", k=chance.randint(2, 9))) for _ in range(_WORDS)]
    weights = [1 / rank for rank in range(1, _WORDS + 1)]
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("w", encoding="ascii") as file:
        while file.tell() < size:
            drawn = chance.choices(words, weights, k=_BLOCK_LINES * _WORDS_PER_LINE)
            for start in range(0, len(drawn), _WORDS_PER_LINE):
                file.write(" ".join(drawn[start : start + _WORDS_PER_LINE]) + "\n")
    return unfinished.replace(path)


def by_penstock(parallelism: int) -> Callable[[str, str], None]:
    """The DataStream API, BATCH: `sum` combines before the exchange."""
    from penstock.common.serialization import Encoder
    from penstock.datastream.connectors.file_system import FileSink, FileSource, StreamFormat

    def count(source: str, target: str) -> None:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(parallelism)
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), source).build()
        lines = env.from_source(files, _no_watermarks(), "text")
        words: Any = lines.flat_map(str.split).map(lambda word: (word, 1))
        counts = words.key_by(lambda pair: pair[0]).sum(1)
        counts.sink_to(FileSink.for_row_format(target, Encoder.simple_string_encoder()).build())
        env.execute("word count")

    return count


def _no_watermarks() -> Any:
    from penstock.common import WatermarkStrategy

    return WatermarkStrategy.no_watermarks()


def _session(parallelism: int) -> Any:
    from pyspark.sql import SparkSession

    from penstock.hosts.spark.driver.java import find_java, quiet_home

    # The same Java and Python as penstock; Spark's defaults otherwise.
    os.environ["JAVA_HOME"] = str(quiet_home(find_java(os.environ), os.environ))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{parallelism}]").config("spark.driver.memory", "4g")
    return builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").getOrCreate()


def by_rdd(parallelism: int) -> Callable[[str, str], None]:
    """`reduceByKey` on PySpark's RDDs."""
    context = _session(parallelism).sparkContext

    def count(source: str, target: str) -> None:
        words = context.textFile(source).flatMap(str.split).map(lambda word: (word, 1))
        words.reduceByKey(add).saveAsTextFile(target)

    return count


def by_data_frame(parallelism: int) -> Callable[[str, str], None]:
    """PySpark's DataFrame: a Python function splits the lines, Spark groups and counts."""
    import pyarrow as pa

    spark = _session(parallelism)

    def split(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            words = [word for line in batch.column(0).to_pylist() for word in line.split()]
            yield pa.RecordBatch.from_arrays([pa.array(words, pa.string())], ["word"])

    def count(source: str, target: str) -> None:
        words = spark.read.text(source).mapInArrow(split, "word string")
        words.groupBy("word").count().selectExpr("concat(word, ' ', count)").write.text(target)

    return count


_ENGINES = {"penstock": by_penstock, "rdd": by_rdd, "dataframe": by_data_frame}


def main() -> None:
    """Measure, by the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--engine", choices=list(_ENGINES), default="penstock")
    parser.add_argument("--mb", type=int, default=1000)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--text-directory", type=Path, default=Path(tempfile.gettempdir(), "penstock-bench-text"))
    arguments = parser.parse_args()
    arguments.text_directory.mkdir(parents=True, exist_ok=True)
    small, large = (text_file(arguments.text_directory, mb) for mb in (_SMALL_MB, arguments.mb))
    count = _ENGINES[arguments.engine](arguments.parallelism)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        count(str(small), f"{directory}/small")
        began = time.perf_counter()
        count(str(large), f"{directory}/large")
        took_s = time.perf_counter() - began
        parts = [path for path in Path(directory, "large").rglob("*") if path.is_file() and path.name[0] not in "._"]
        found = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in parts)
    if not _WORDS * 0.5 < found <= _WORDS and arguments.mb >= 10:
        raise RuntimeError(f"{found} different words were written")
    size_mb = large.stat().st_size / 1e6
    tell({"seconds": took_s, "mb_per_s": size_mb / took_s, "memory_mb": usage().total_bytes / 1e6, "words": found})


if __name__ == "__main__":
    main()
