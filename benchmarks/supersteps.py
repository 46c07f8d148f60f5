"""Structured iterations: the cost of a superstep, and PageRank and connected components on arrays and on objects.

    python -m benchmarks.supersteps                            # all but the curve
    python -m benchmarks.supersteps --only curve --sizes 1,10  # PageRank with 2, 4 and 8 subtasks, millions of edges

Prints a line for each, with wall clock and CPU time of the subtasks' processes. The graph is an R-MAT graph (a 0.57, b
and c 0.19), made with NumPy from a seed; the results are compared with those of one thread.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from penstock.datastream import OutputTag, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.functions import ProcessFunction
from penstock.iteration import IterationListener, SolutionSetFunction, SumAggregator, iterate, iterate_delta

FIGURES: OutputTag[Any] = OutputTag("figures")
DAMPING = 0.85
CHUNK = 1 << 22
"""How many edges are drawn at a time."""
Array = Any


def rmat(scale: int, edges: int, seed: int = 1) -> tuple[Array, Array]:
    """Return sources and targets of an R-MAT graph with 2**scale vertices, without doubles and loops (int32).

    The vertices are numbered at random, as in the Graph500 benchmark: as drawn, even ones have three quarters of the
    edges. Takes 20 bytes an edge at its peak: 50 million edges take 1 GB.
    """
    random = np.random.default_rng(seed)
    labels = random.permutation(1 << scale)
    parts = [_drawn(random, scale, min(CHUNK, edges - start), labels) for start in range(0, edges, CHUNK)]
    drawn = np.concatenate(parts)
    del parts
    drawn.sort()
    kept = drawn[np.r_[True, drawn[1:] != drawn[:-1]]]
    del drawn
    source = (kept >> scale).astype(np.int32)
    kept &= (1 << scale) - 1
    return source, kept.astype(np.int32)


def _drawn(random: np.random.Generator, scale: int, edges: int, labels: Array) -> Array:
    """Return edges without loops between vertices named by `labels`, each as one number: sorted with its target."""
    numbers = np.zeros(edges, np.int64)
    for _ in range(scale):
        drawn = random.random(edges, np.float32)
        numbers <<= 1
        numbers |= (drawn >= 0.76).astype(np.int64) << scale
        numbers |= ((drawn >= 0.57) & (drawn < 0.76)) | (drawn >= 0.95)
    sources, targets = numbers >> scale, numbers & ((1 << scale) - 1)
    numbers = labels[sources] << scale | labels[targets]
    return numbers[sources != targets]


class Figures(NamedTuple):
    """What a subtask has measured: supersteps, seconds of one (median) and of all, CPU seconds of its process.

    `peak_kib`: the most memory that the process has had (KiB).
    """

    subtask: int
    supersteps: int
    median_s: float
    total_s: float
    cpu_s: float
    pid: int
    peak_kib: int
    result: Any


class Superstep(ProcessFunction[Any, Any], IterationListener):
    """Base of steps on arrays: a subtask has the vertices whose number, modulo the parallelism, is its own.

    A message is (receiver, what the subclass sends). Messages of a superstep are gathered, and `step` answers them.
    """

    def open(self, runtime_context: Any) -> None:
        """Build the part of the graph of this subtask."""
        self.context = runtime_context
        self.own, self.all = (
            runtime_context.get_index_of_this_subtask(),
            runtime_context.get_number_of_parallel_subtasks(),
        )
        self.got: list[Any] = []
        self.began: list[float] = []
        self.cpu_s = 0.0
        self.build()

    def build(self) -> None:
        """Build what the step needs."""

    def step(self, messages: list[Any]) -> Any:
        """Yield (receiver, content) for the next superstep."""
        for receiver, _ in messages:
            yield receiver, None

    def result(self) -> Any:
        """Return a figure of the result."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        """Gather a message."""
        self.got.append(value)

    def on_epoch_watermark_incremented(self, epoch_watermark: int, context: Any) -> Any:
        """Answer the messages of the superstep."""
        self.note()
        messages, self.got = self.got, []
        yield from self.step(messages)

    def note(self) -> None:
        """Note that a superstep ends."""
        if not self.began:
            self.cpu_s = -time.process_time()
        self.began.append(time.perf_counter())

    def on_iteration_terminated(self, context: Any) -> Any:
        """Report the times of supersteps."""
        self.note()
        self.cpu_s += time.process_time()
        times = np.diff(self.began)
        median, total = float(np.median(times)), float(times.sum())
        peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        yield FIGURES, (self.own, len(times), median, total, self.cpu_s, os.getpid(), peak_kib, self.result())


class PageRank(Superstep):
    """Ranks of the own vertices; a message is the sums for the receiver's vertices, with its dangling mass."""

    def __init__(self, folder: Path, vertices: int) -> None:
        self.folder = folder
        self.vertices = vertices

    @staticmethod
    def lay_out(folder: Path, graph: tuple[Array, Array], vertices: int, subtasks: int) -> None:
        """Write the edges of each subtask, sorted by their targets, for sums by `reduceat`."""
        source, target = graph
        degree = np.bincount(source, minlength=vertices).astype(np.int32)
        for own in range(subtasks):
            mine = source % subtasks == own
            order = np.argsort(target[mine], kind="stable")
            np.save(folder / f"targets-{own}.npy", target[mine][order])
            np.save(folder / f"sources-{own}.npy", source[mine][order] // subtasks)
            np.save(folder / f"degree-{own}.npy", degree[own::subtasks])

    def build(self) -> None:
        """Read the own edges."""
        targets = np.load(self.folder / f"targets-{self.own}.npy")
        # Without a conversion of the index in each superstep.
        self.sources = np.load(self.folder / f"sources-{self.own}.npy").astype(np.intp)
        degree = np.load(self.folder / f"degree-{self.own}.npy")
        self.starts = np.flatnonzero(np.r_[True, targets[1:] != targets[:-1]])
        sums = targets[self.starts]
        self.parts = [np.flatnonzero(sums % self.all == other) for other in range(self.all)]
        self.slots = [sums[part] // self.all for part in self.parts]
        self.known: dict[int, Array] = {}
        self.inverse = np.where(degree > 0, 1 / np.maximum(degree, 1), 0)
        self.dangling = degree == 0
        self.rank = np.full(len(degree), 1 / self.vertices)

    def step(self, messages: list[Any]) -> Any:
        """Apply the sums of the superstep before, and send new ones."""
        if messages and messages[0][1] is not None:
            sums = np.zeros(len(self.rank))
            lost = 0.0
            for _, (sender, dangling, slots, values) in messages:
                if slots is not None:
                    self.known[sender] = slots
                sums[self.known[sender]] += values
                lost += dangling
            self.rank = (1 - DAMPING) / self.vertices + DAMPING * (sums + lost / self.vertices)
        sums = np.add.reduceat((self.rank * self.inverse)[self.sources], self.starts)
        lost = float(self.rank[self.dangling].sum())
        first = self.context.get_superstep_number() == 0
        for other in range(self.all):
            yield other, (self.own, lost, self.slots[other] if first else None, sums[self.parts[other]])

    def result(self) -> Any:
        """Return the sum of the squares of the ranks."""
        return float((self.rank**2).sum())


class Components(Superstep):
    """The least vertex of each component; a message has the vertices whose component may become less.

    A dense superstep goes over all edges, sorted by target; a sparse one over those of changed vertices. Both send only
    what is less than all that was sent to a vertex before.
    """

    def __init__(self, graph: tuple[Array, Array], vertices: int) -> None:
        self.graph = graph
        self.vertices = vertices

    def build(self) -> None:
        """Lay out the own edges, in both directions, by source and by target."""
        (source, target), vertices = self.graph, self.vertices
        both = np.r_[source, target], np.r_[target, source]
        mine = both[0] % self.all == self.own
        sources, targets = both[0][mine] // self.all, both[1][mine]
        order = np.lexsort((targets, sources))
        self.targets = targets[order]
        self.label = np.arange(self.own, vertices, self.all, dtype=np.int32)
        self.offsets = np.searchsorted(sources[order], np.arange(len(self.label) + 1))
        order = np.lexsort((sources, targets))
        self.by_target = sources[order]
        self.starts = np.flatnonzero(np.r_[True, np.diff(targets[order]) > 0])
        self.reached = targets[order][self.starts]
        self.sent = np.full(vertices, vertices, np.int32)
        self.none = self.sent.copy()
        del self.graph

    def step(self, messages: list[Any]) -> Any:
        """Take smaller labels, and send those that have changed to neighbours."""
        label = self.label
        if messages and messages[0][1] is None:
            changed = np.ones(len(label), bool)
        else:
            changed = np.zeros(len(label), bool)
            for _, (vertices, labels) in messages:
                # Each message has a vertex once.
                less = labels < label[vertices]
                vertices = vertices[less]
                label[vertices] = labels[less]
                changed[vertices] = True
        frontier = np.flatnonzero(changed)
        counts = self.offsets[frontier + 1] - self.offsets[frontier]
        if (total := int(counts.sum())) * 10 > len(self.targets):
            vertices, labels = self.reached, np.minimum.reduceat(label[self.by_target], self.starts)
        elif total:
            ends = np.cumsum(counts)
            edges = np.arange(total) + np.repeat(self.offsets[frontier] - ends + counts, counts)
            least = self.none.copy()
            np.minimum.at(least, self.targets[edges], np.repeat(label[frontier], counts))
            vertices = np.flatnonzero(least < self.sent)
            labels = least[vertices]
        else:
            return
        less = labels < self.sent[vertices]
        vertices, labels = vertices[less], labels[less]
        self.sent[vertices] = labels
        for other in range(self.all):
            part = vertices % self.all == other
            if part.any():
                yield other, (vertices[part] // self.all, labels[part])

    def result(self) -> Any:
        """Return the sum of the labels."""
        return int(self.label.sum())


class Neighbours(Superstep):
    """Of components on objects: sends the label of a changed vertex to each of its neighbours, as a record."""

    def __init__(self, graph: tuple[Array, Array]) -> None:
        self.graph = graph

    def build(self) -> None:
        """Collect the neighbours of each vertex."""
        self.neighbours: dict[int, list[int]] = {}
        self.sent = 0
        for source, target in zip(*(ends.tolist() for ends in self.graph), strict=True):
            self.neighbours.setdefault(source, []).append(target)
            self.neighbours.setdefault(target, []).append(source)
        del self.graph

    def process_element(self, value: Any, ctx: Any) -> Any:
        """Send the label on."""
        vertex, label = value
        neighbours = self.neighbours.get(vertex, ())
        self.sent += len(neighbours)
        return [(neighbour, label) for neighbour in neighbours]

    def step(self, messages: list[Any]) -> Any:
        """Send nothing: it has been sent."""
        return ()

    def result(self) -> int:
        """Return the number of messages."""
        return self.sent


class Least(SolutionSetFunction):
    """Takes the smaller label. Writes the CPU time of its process when the iteration has ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.began: float | None = None

    def co_group(self, key: int, entry: tuple[int, int], messages: list[tuple[int, int]]) -> tuple[int, int] | None:
        """Return the vertex with a smaller label, if there is one among the messages."""
        if self.began is None:
            self.began = time.process_time()
        label = min(messages)[1]
        return (key, label) if label < entry[1] else None

    def close(self) -> None:
        """Write the CPU time since the first message."""
        if self.began is not None:
            (self.folder / str(os.getpid())).write_text(str(time.process_time() - self.began))


def environment(parallelism: int) -> StreamExecutionEnvironment:
    """Return the environment of a measurement."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    env.set_parallelism(parallelism)
    return env


def run(step: Superstep, parallelism: int, supersteps: int) -> list[Figures]:
    """Run an iteration of `step` on Spark; return the figures of its subtasks."""
    env = environment(parallelism)
    initial = env.from_collection([(receiver, None) for receiver in range(parallelism)])
    by_receiver = initial.partition_custom(lambda receiver, subtasks: receiver % subtasks, lambda value: value[0])
    iteration = iterate(by_receiver, supersteps, aggregators={"changed": SumAggregator()})
    stepped = iteration.process(step)
    iteration.close_with(
        stepped.partition_custom(lambda receiver, subtasks: receiver % subtasks, lambda value: value[0])
    )
    with stepped.get_side_output(FIGURES).execute_and_collect() as figures:
        return sorted(Figures(*one) for one in figures)


def run_objects(graph: tuple[Array, Array], parallelism: int) -> tuple[list[Figures], float]:
    """Run connected components with a record for each message.

    Return the figures of the subtasks that send, and the CPU seconds of all workers in the loop.
    """
    env = environment(parallelism)
    vertices = env.from_collection([(vertex, vertex) for vertex in np.unique(np.r_[graph]).tolist()])
    iteration = iterate_delta(vertices, vertices, key=itemgetter(0))
    messages = iteration.workset.process(Neighbours(graph))
    with tempfile.TemporaryDirectory(prefix="supersteps-") as folder:
        changed = iteration.solution_set.co_group(messages, Least(Path(folder)), key=itemgetter(0))
        iteration.close_with(changed, changed)
        with messages.get_side_output(FIGURES).execute_and_collect() as results:
            figures = sorted(Figures(*one) for one in results)
        known = {one.pid: one.cpu_s for one in figures}
        known |= {int(file.name): float(file.read_text()) for file in Path(folder).iterdir()}
    return figures, sum(known.values())


def cpu_s(figures: list[Figures]) -> float:
    """Return the CPU seconds of the subtasks' processes in the loop."""
    return sum({one.pid: one.cpu_s for one in figures}.values())


def peak_mib(figures: list[Figures]) -> float:
    """Return the most memory that the subtasks' processes have had, and Spark's JVM, which this process started."""
    kib = sum({one.pid: one.peak_kib for one in figures}.values())
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
            if fields["Name"].strip() == "java" and int(fields["PPid"]) == os.getpid():
                kib += int(fields["VmHWM"].split()[0])
    return kib / 1024


def expected_ranks(source: Array, target: Array, vertices: int, supersteps: int) -> float:
    """Return the sum of the squares of PageRank's ranks, by one thread."""
    degree = np.bincount(source, minlength=vertices)
    rank = np.full(vertices, 1 / vertices)
    inverse = np.where(degree > 0, 1 / np.maximum(degree, 1), 0)
    for _ in range(supersteps - 1):
        sums = np.bincount(target, (rank * inverse)[source], minlength=vertices)
        rank = (1 - DAMPING) / vertices + DAMPING * (sums + rank[degree == 0].sum() / vertices)
    return float((rank**2).sum())


def expected_components(source: Array, target: Array, vertices: int) -> int:
    """Return the sum of the labels of components, by one thread."""
    label = np.arange(vertices)
    while True:
        before = label.copy()
        np.minimum.at(label, target, before[source])
        np.minimum.at(label, source, before[target])
        if (label == before).all():
            return int(label.sum())


class Measured:
    """The measurements, each of which prints a line."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.vertices = 1 << options.scale
        self._graph: tuple[Array, Array] | None = None

    @property
    def graph(self) -> tuple[Array, Array]:
        """The graph for all but the curve and objects."""
        if self._graph is None:
            self._graph = rmat(self.options.scale, self.options.edges)
            print(f"graph: {self.vertices:,} vertices, {len(self._graph[0]):,} edges", flush=True)
        return self._graph

    def empty(self) -> Iterator[str]:
        """Supersteps that do nothing, with 2 and with 8 subtasks."""
        for parallelism in (2, 8):
            figures = run(Superstep(), parallelism, 500)
            wall, cpu = max(one.median_s for one in figures), cpu_s(figures) / figures[0].supersteps
            yield f"empty superstep, {parallelism} subtasks: {wall * 1e3:.2f} ms (median), CPU {cpu * 1e3:.2f} ms"

    def pagerank(self) -> Iterator[str]:
        """Supersteps of PageRank."""
        options = self.options
        figures = ranked(self.graph, self.vertices, options.parallelism, options.supersteps)
        wall, cpu = max(one.median_s for one in figures), cpu_s(figures) / figures[0].supersteps
        yield f"PageRank: {wall * 1e3:.1f} ms a superstep (median), CPU {cpu * 1e3:.1f} ms"

    def components(self) -> Iterator[str]:
        """The whole loop of connected components."""
        figures = run(Components(self.graph, self.vertices), self.options.parallelism, 1_000)
        assert sum(one.result for one in figures) == expected_components(*self.graph, self.vertices)
        wall, count = max(one.total_s for one in figures), figures[0].supersteps
        yield f"connected components: {wall:.3f} s, CPU {cpu_s(figures):.3f} s, {count} supersteps"

    def objects(self) -> Iterator[str]:
        """Messages of connected components on objects."""
        graph = rmat(14, self.options.object_edges)
        figures, cpu = run_objects(graph, self.options.parallelism)
        sent, wall = sum(one.result for one in figures), max(one.total_s for one in figures)
        yield (
            f"components on objects: {sent:,} messages, {sent / wall:,.0f}/s over all subtasks, "
            f"{cpu / sent * 1e6:.2f} µs of CPU a message"
        )

    def curve(self) -> Iterator[str]:
        """PageRank by subtasks and edges."""
        for millions in self.options.sizes:
            scale = max(10, round(np.log2(millions * 1e6 / 16)))
            graph = rmat(scale, int(millions * 1e6 * 1.08))
            for parallelism in (2, 4, 8):
                figures = ranked(graph, 1 << scale, parallelism, self.options.supersteps)
                wall, cpu = max(one.median_s for one in figures), cpu_s(figures) / figures[0].supersteps
                edges = len(graph[0])
                yield (
                    f"PageRank, {edges / 1e6:.1f} million edges, {parallelism} subtasks: {wall * 1e3:.1f} ms a "
                    f"superstep, CPU {cpu * 1e3:.1f} ms, {cpu / edges * 1e9:.1f} ns of CPU an edge, "
                    f"JVM and workers {peak_mib(figures):,.0f} MiB"
                )


def ranked(graph: tuple[Array, Array], vertices: int, parallelism: int, supersteps: int) -> list[Figures]:
    """Run PageRank, and compare the ranks with those of one thread."""
    with tempfile.TemporaryDirectory(prefix="supersteps-") as folder:
        PageRank.lay_out(Path(folder), graph, vertices, parallelism)
        figures = run(PageRank(Path(folder), vertices), parallelism, supersteps)
    found, right = sum(one.result for one in figures), expected_ranks(*graph, vertices, supersteps)
    assert abs(found / right - 1) < 1e-9, (found, right)
    return figures


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--scale", type=int, default=17)
    parser.add_argument("--edges", type=int, default=2_250_000)
    parser.add_argument("--object-edges", type=int, default=230_000)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--supersteps", type=int, default=300)
    parser.add_argument("--sizes", type=lambda text: [float(one) for one in text.split(",")], default=[1.0, 10.0])
    parser.add_argument("--only", default="empty,pagerank,components,objects")
    options = parser.parse_args()
    measured = Measured(options)
    known: dict[str, Callable[[], Iterator[str]]] = {
        "empty": measured.empty,
        "pagerank": measured.pagerank,
        "components": measured.components,
        "objects": measured.objects,
        "curve": measured.curve,
    }
    for name in options.only.split(","):
        for line in known[name]():
            print(line, flush=True)


if __name__ == "__main__":
    main()
