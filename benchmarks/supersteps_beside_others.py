"""A superstep of PageRank in penstock, Gelly and GraphX, one after the other, on the same graph.

    python -m benchmarks.supersteps_beside_others

An R-MAT graph as in `benchmarks/supersteps.py`, two subtasks each. A superstep of the others costs what a run of 12
takes more than one of 2, divided by 10, after a run that warms up; of penstock it is the median, because its
supersteps can be seen, of so many that Spark's JVM is warm, too. Gelly's jars come from Maven's repository (`mvn`),
into the user's cache. GraphX is part of Spark, and runs the PageRank of GraphFrames, too. Prints a table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.environments import PLACE, NotThereError, compiled
from benchmarks.supersteps import Array, cpu_s, expected_ranks, ranked, rmat
from penstock.common.errors import ConfigurationError
from penstock.hosts.spark.driver.java import find_java
from penstock.testing.maven_jars import maven_jars

ROOT = Path(__file__).parents[1]
GELLY = "1.16.3"
RUNS = (2, 2, 12)
OWN_SUPERSTEPS = 200
_HEAP = "3g"
_OPENED = ("util", "lang", "lang.reflect", "nio", "net", "text", "time", "util.concurrent")
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>benchmark</groupId><artifactId>{name}</artifactId><version>1</version>
<dependencies>{all}</dependencies>
</project>
"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


def pom(name: str, coordinates: Sequence[str]) -> str:
    """Return a project with these dependencies, "group:artifact:version"."""
    return _POM.format(name=name, all="".join(_DEPENDENCY.format(*one.split(":")) for one in coordinates))


def of_gelly(edges: Path, parallelism: int) -> list[dict[str, Any]]:
    """Return the answers of FlinkGelly.java. Raises NotThereError, ConfigurationError without its jars."""
    flink = [f"org.apache.flink:{artifact}:{GELLY}" for artifact in ("flink-gelly", "flink-clients", "flink-java")]
    name = f"gelly-{GELLY}"
    libraries = f"{maven_jars('Gelly', name, pom(name, [*flink, 'org.slf4j:slf4j-nop:1.7.36']))}/*"
    PLACE.mkdir(exist_ok=True)
    jar = compiled("FlinkGelly", libraries, PLACE)
    java = find_java(os.environ).path / "bin" / "java"
    opens = [part for one in _OPENED for part in ("--add-opens", f"java.base/java.{one}=ALL-UNNAMED")]
    path = os.pathsep.join([str(jar), libraries])
    command = [str(java), f"-Xmx{_HEAP}", *opens, "-cp", path, "FlinkGelly", str(edges), str(parallelism)]
    return answers(command)


def of_graphx(edges: Path, parallelism: int) -> list[dict[str, Any]]:
    """Return the answers of GraphX. Raises NotThereError if it fails."""
    return answers([sys.executable, "-m", "benchmarks.peers.graphx", str(edges), str(parallelism)])


def answers(command: Sequence[str]) -> list[dict[str, Any]]:
    """Run a program with RUNS; return the JSON documents that it prints. Raises NotThereError if it fails."""
    done = subprocess.run([*command, *map(str, RUNS)], capture_output=True, text=True, cwd=ROOT, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or len(found) < len(RUNS):
        raise NotThereError((done.stderr.strip() or "no output")[-2000:])
    return found


def superstep_s(found: Sequence[dict[str, Any]], kind: str) -> float:
    """Return the seconds of a superstep, of wall clock or of CPU."""
    return float(found[-1][kind] - found[-2][kind]) / (RUNS[-1] - RUNS[-2])


def compact(graph: tuple[Array, Array]) -> tuple[Array, Array, int]:
    """Return the graph without vertices that have no edge, which the others do not have, and how many vertices."""
    known, numbers = np.unique(np.r_[graph], return_inverse=True)
    half = len(numbers) // 2
    return numbers[:half].astype(np.int32), numbers[half:].astype(np.int32), len(known)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--scale", type=int, default=17)
    parser.add_argument("--edges", type=int, default=2_250_000)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--only", default="penstock,gelly,graphx")
    options = parser.parse_args()
    source, target, vertices = compact(rmat(options.scale, options.edges))
    print(f"graph: {vertices:,} vertices, {len(source):,} edges\n", flush=True)
    print("| | a superstep, ms | CPU, ms | times penstock | by CPU |\n| --- | ---: | ---: | ---: | ---: |", flush=True)
    only = options.only.split(",")
    ours: dict[str, float] = {}
    if "penstock" in only:
        figures = ranked((source, target), vertices, options.parallelism, OWN_SUPERSTEPS)
        ours = {"wall_s": max(one.median_s for one in figures), "cpu_s": cpu_s(figures) / figures[0].supersteps}
        print(f"| penstock | {ours['wall_s'] * 1e3:.1f} | {ours['cpu_s'] * 1e3:.1f} | 1 | 1 |", flush=True)
    with tempfile.TemporaryDirectory(prefix="graphs-") as folder:
        edges = Path(folder, "edges.csv")
        np.savetxt(edges, np.stack([source, target], axis=1), fmt="%d", delimiter=" ")
        for name, run in (("gelly", of_gelly), ("graphx", of_graphx)):
            if name not in only:
                continue
            try:
                found = run(edges, options.parallelism)
            except (NotThereError, ConfigurationError) as error:
                print(f"| {name} | not there: {error} | | | |", flush=True)
                continue
            if "squares" in found[-1]:
                # Gelly's superstep n is our n + 1: our first one only sends.
                right = expected_ranks(source, target, vertices, RUNS[-1] + 1)
                assert abs(found[-1]["squares"] / right - 1) < 1e-6, (found[-1], right)
            theirs = {kind: superstep_s(found, kind) for kind in ("wall_s", "cpu_s")}
            cells = [f"{seconds * 1e3:.0f}" for seconds in theirs.values()]
            cells += [f"{theirs[kind] / ours[kind]:.0f}" if ours else "" for kind in theirs]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
