"""The measurements: each figure on each peer, in the variants worth trying."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.environments import HERE, Environments

PEERS = ("penstock", "pyflink", "flink-java", "spark")
FIGURES = {
    "1": "keyed running count, 1,000 keys",
    "3": "stateless map → filter → sink",
    "5": "event-time tumbling windows, aggregate, 1,000 keys",
    "6": "latency source → key_by → process",
}
RATES = (1, 1_000, 20_000, 100_000)

# name: mode, bundle size, bundle time (ms), buffer timeout (ms); -1: the default
PYFLINK_THROUGHPUT = {
    "as it comes": ("process", -1, -1, -1),
    "bundles of 10,000": ("process", 10_000, -1, -1),
    "bundles of 100,000": ("process", 100_000, -1, -1),
    "threads, 5 ms buffers": ("thread", -1, -1, 5),
}
PYFLINK_LATENCY = {
    "as it comes": ("process", -1, -1, -1),
    "bundles of 1,000 or 10 ms, 5 ms buffers": ("process", 1_000, 10, 5),
    "threads, 5 ms buffers": ("thread", -1, -1, 5),
}
# Rates far beyond the process modes; and those for which 1,000 records/s already show the delay of a bundle.
LEFT_OUT = {"as it comes": (1, 20_000, 100_000), "bundles of 1,000 or 10 ms, 5 ms buffers": (100_000,)}
# 20,000 were three times slower and more. Larger ones were not measured.
SPARK_BATCH = 100_000


@dataclass(frozen=True)
class Case:
    """One measurement. `rate`: records/s, 0 for no limit."""

    figure: str
    peer: str
    variant: str
    rate: int
    options: tuple[str, ...]

    @property
    def warm_up(self) -> float:
        """Minimum seconds after the first record. Spark's first batches are slow, and a backlog builds up meanwhile."""
        return 15.0 if self.peer == "spark" and self.rate else 0.0

    @property
    def seconds(self) -> float:
        """Minimum seconds of measurement: one record per second gives few records, and Spark's batches take seconds."""
        if self.rate == 1:
            return 20.0
        # Windows of large bundles take long as well.
        return 15.0 if self.peer == "spark" or (self.peer, self.figure) == ("pyflink", "5") else 0.0

    @property
    def title(self) -> str:
        rate = f" at {self.rate:,}/s" if self.rate else ""
        return f"figure {self.figure}{rate}, {self.peer} ({self.variant})"

    def command(self, environments: Environments, directory: Path) -> list[str]:
        """Return the program and its arguments; its counter files are written to `directory`."""
        common = [self.figure, str(self.rate), self.options[0], str(directory)]
        if self.peer == "flink-java":
            assert environments.jar is not None
            java = Path(environments.variables["JAVA_HOME"], "bin", "java")
            return [str(java), "-Xmx2g", "-cp", f"{environments.jar}:{environments.flink_lib}/*", "FlinkJobs", *common]
        program = [str(environments.python[self.peer]), str(HERE / f"{self.peer}_jobs.py"), *common]
        if self.peer == "penstock":
            program += self.options[1:]
        if self.peer == "pyflink":
            program += [str(environments.jar or "-"), *self.options[1:]]
        return program


def all_cases() -> Iterator[Case]:
    """Yield the cases in their order of execution: the peers of a figure consecutively, under similar conditions."""
    for figure in FIGURES:
        for rate in RATES if figure == "6" else (0,):
            for peer in PEERS:
                yield from _variants(figure, peer, rate)


def _variants(figure: str, peer: str, rate: int) -> Iterator[Case]:
    latency = figure == "6"
    if peer == "pyflink":
        for name, (mode, size, time_ms, buffer_ms) in (PYFLINK_LATENCY if latency else PYFLINK_THROUGHPUT).items():
            if rate not in LEFT_OUT.get(name, ()):
                yield Case(figure, peer, name, rate, (str(buffer_ms), mode, str(size), str(time_ms)))
    elif peer == "spark" and latency:
        yield Case(figure, peer, "micro-batches", rate, ("0",))
    elif peer == "spark":
        yield Case(figure, peer, f"micro-batches of {SPARK_BATCH:,}", rate, (str(SPARK_BATCH),))
    elif latency:
        for timeout_ms in (1, 5) if peer == "penstock" else (5,):
            yield Case(figure, peer, f"{timeout_ms} ms buffers", rate, (str(timeout_ms),))
    else:
        yield Case(figure, peer, "as it comes", rate, ("-1",))
        if peer == "penstock":
            yield Case(figure, peer, "columns", rate, ("-1", "columns"))
        if (figure, peer) == ("5", "penstock"):
            yield Case(figure, peer, "columns, aggregated before the exchange", rate, ("-1", "local"))
