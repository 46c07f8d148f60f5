"""PageRank of GraphX: `python -m benchmarks.peers.graphx EDGES PARALLELISM RUN...`.

EDGES: a file with an edge in each line, "source target". Each RUN is a number of supersteps. For each a JSON document
is printed: seconds of wall clock and of CPU of the JVM, and the number of ranks. GraphX comes with Spark, and runs the
PageRank of GraphFrames as well, which adds conversions from and to data frames.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Run PageRank, and print the figures."""
    edges, parallelism, *runs = sys.argv[1:]
    spark = (
        SparkSession.builder.master(f"local[{parallelism}]")
        .config("spark.driver.memory", "3g")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    jvm: Any = spark._jvm
    memory = jvm.org.apache.spark.storage.StorageLevel.MEMORY_ONLY()
    integer = jvm.scala.reflect.ClassTag.Int()
    # Py4J takes arguments by place only.
    loaded = (spark.sparkContext._jsc.sc(), edges, False, int(parallelism), memory, memory)
    graph = jvm.org.apache.spark.graphx.GraphLoader.edgeListFile(*loaded)
    pid = int(jvm.java.lang.ProcessHandle.current().pid())
    for supersteps in runs:
        began, before_s = time.perf_counter(), cpu_s(pid)
        arguments = (graph, int(supersteps), 0.15, integer, integer)
        ranked = jvm.org.apache.spark.graphx.lib.PageRank.run(*arguments)
        ranks = ranked.vertices().count()
        figures = {"wall_s": time.perf_counter() - began, "cpu_s": cpu_s(pid) - before_s}
        print(json.dumps({"supersteps": int(supersteps), **figures, "ranks": ranks}), flush=True)


if __name__ == "__main__":
    main()
