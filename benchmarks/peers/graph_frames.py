"""PageRank of GraphFrames: `python -m benchmarks.peers.graph_frames EDGES JARS PARALLELISM RUN...`.

EDGES: a file with an edge in each line, "source,target". JARS: a class path with GraphFrames. Each RUN is a number of
supersteps. For each a JSON document is printed: seconds of wall clock, and the largest rank with its vertex. GraphX
runs the loop, in the JVM; no Python of GraphFrames is needed for that.
"""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import DataFrame, SparkSession


def main() -> None:
    """Run PageRank, and print the figures."""
    edges_file, jars, parallelism, *runs = sys.argv[1:]
    spark = (
        SparkSession.builder.master(f"local[{parallelism}]")
        .config("spark.driver.extraClassPath", jars)
        .config("spark.driver.memory", "3g")
        .config("spark.sql.shuffle.partitions", parallelism)
        .config("spark.default.parallelism", parallelism)
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    edges = spark.read.csv(edges_file, schema="src LONG, dst LONG").repartition(int(parallelism)).cache()
    vertices = edges.select(edges.src.alias("id")).union(edges.select(edges.dst.alias("id"))).distinct().cache()
    vertices.count()
    graph = spark._jvm.org.graphframes.GraphFrame.apply(vertices._jdf, edges._jdf)  # type: ignore[union-attr]
    for supersteps in runs:
        began = time.perf_counter()
        ranked = graph.pageRank().resetProbability(0.15).maxIter(int(supersteps)).run()
        ranks = DataFrame(ranked.vertices(), spark).select("id", "pagerank")
        top = ranks.orderBy("pagerank", ascending=False).first()
        wall_s = time.perf_counter() - began
        assert top is not None
        print(
            json.dumps({"supersteps": int(supersteps), "wall_s": wall_s, "vertex": top[0], "rank": top[1]}), flush=True
        )


if __name__ == "__main__":
    main()
