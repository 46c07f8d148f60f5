"""Structured iterations: the cost of a superstep, and PageRank and connected components on arrays.

`python -m benchmarks.supersteps` prints a line for each. The graph is an R-MAT graph (a 0.57, b and c 0.19), made with
NumPy from a seed; the results are compared with those of one thread.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from penstock.datastream import OutputTag, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.functions import ProcessFunction
from penstock.iteration import IterationListener, SumAggregator, iterate

FIGURES: OutputTag[Any] = OutputTag("figures")
DAMPING = 0.85


def rmat(scale: int, edges: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return sources and targets of an R-MAT graph with 2**scale vertices, without doubles and loops."""
    random = np.random.default_rng(seed)
    source = np.zeros(edges, np.int64)
    target = np.zeros(edges, np.int64)
    for _ in range(scale):
        drawn = random.random(edges)
        source = source * 2 + (drawn >= 0.76)
        target = target * 2 + (((drawn >= 0.57) & (drawn < 0.76)) | (drawn >= 0.95))
    kept = np.unique((source << scale | target)[source != target])
    return kept >> scale, kept & ((1 << scale) - 1)


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
        self.build()

    def build(self) -> None:
        """Build what the step needs."""

    def step(self, messages: list[Any]) -> Any:
        """Yield (receiver, content) for the next superstep."""
        for receiver, _ in messages:
            yield receiver, None

    def result(self) -> Any:
        """Return a figure of the result."""

    def process_element(self, value: Any, ctx: Any) -> None:
        """Gather a message."""
        self.got.append(value)

    def on_epoch_watermark_incremented(self, epoch_watermark: int, context: Any) -> Any:
        """Answer the messages of the superstep."""
        self.began.append(time.perf_counter())
        messages, self.got = self.got, []
        yield from self.step(messages)

    def on_iteration_terminated(self, context: Any) -> Any:
        """Report the times of supersteps."""
        self.began.append(time.perf_counter())
        times = np.diff(self.began)
        yield FIGURES, (self.own, len(times), float(np.median(times)), float(times.sum()), self.result())


class PageRank(Superstep):
    """Ranks of the own vertices; a message is the sums for the receiver's vertices, with its dangling mass."""

    def __init__(self, source: np.ndarray, target: np.ndarray, vertices: int) -> None:
        self.graph = source, target, vertices

    def build(self) -> None:
        """Sort the own edges by their targets, for sums by `reduceat`."""
        source, target, vertices = self.graph
        degree = np.bincount(source, minlength=vertices)[self.own :: self.all]
        mine = source % self.all == self.own
        order = np.argsort(target[mine], kind="stable")
        targets, self.sources = target[mine][order], source[mine][order] // self.all
        self.starts = np.flatnonzero(np.r_[True, targets[1:] != targets[:-1]])
        sums = targets[self.starts]
        self.parts = [np.flatnonzero(sums % self.all == other) for other in range(self.all)]
        self.slots = [sums[part] // self.all for part in self.parts]
        self.known: dict[int, np.ndarray] = {}
        self.inverse = np.where(degree > 0, 1 / np.maximum(degree, 1), 0)
        self.dangling = degree == 0
        self.rank = np.full(len(degree), 1 / vertices)
        del self.graph
        self.vertices = vertices

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

    def __init__(self, source: np.ndarray, target: np.ndarray, vertices: int) -> None:
        self.graph = source, target, vertices

    def build(self) -> None:
        """Lay out the own edges, in both directions, by source and by target."""
        source, target, vertices = self.graph
        both = np.r_[source, target].astype(np.int32), np.r_[target, source].astype(np.int32)
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


def run(step: Superstep, parallelism: int, supersteps: int) -> list[Any]:
    """Run an iteration of `step` on Spark; return the figures of its subtasks."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    env.set_parallelism(parallelism)
    env.set_buffer_timeout(1)
    initial = env.from_collection([(receiver, None) for receiver in range(parallelism)])
    by_receiver = initial.partition_custom(lambda receiver, subtasks: receiver % subtasks, lambda value: value[0])
    iteration = iterate(by_receiver, supersteps, aggregators={"changed": SumAggregator()})
    stepped = iteration.process(step)
    iteration.close_with(
        stepped.partition_custom(lambda receiver, subtasks: receiver % subtasks, lambda value: value[0])
    )
    with stepped.get_side_output(FIGURES).execute_and_collect() as figures:
        return sorted(figures)


def expected_ranks(source: np.ndarray, target: np.ndarray, vertices: int, supersteps: int) -> float:
    """Return the sum of the squares of PageRank's ranks, by one thread."""
    degree = np.bincount(source, minlength=vertices)
    rank = np.full(vertices, 1 / vertices)
    inverse = np.where(degree > 0, 1 / np.maximum(degree, 1), 0)
    for _ in range(supersteps - 1):
        sums = np.bincount(target, (rank * inverse)[source], minlength=vertices)
        rank = (1 - DAMPING) / vertices + DAMPING * (sums + rank[degree == 0].sum() / vertices)
    return float((rank**2).sum())


def expected_components(source: np.ndarray, target: np.ndarray, vertices: int) -> int:
    """Return the sum of the labels of components, by one thread."""
    label = np.arange(vertices)
    while True:
        before = label.copy()
        np.minimum.at(label, target, before[source])
        np.minimum.at(label, source, before[target])
        if (label == before).all():
            return int(label.sum())


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--scale", type=int, default=17)
    parser.add_argument("--edges", type=int, default=2_250_000)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--supersteps", type=int, default=30)
    options = parser.parse_args()
    for parallelism in sorted({2, options.parallelism}):
        for subtask, count, median, _, _ in run(Superstep(), parallelism, 500):
            if not subtask:
                print(f"empty superstep, parallelism {parallelism}: {median * 1e3:.2f} ms (median of {count})")
    source, target = rmat(options.scale, options.edges)
    vertices = 1 << options.scale
    print(f"graph: {vertices:,} vertices, {len(source):,} edges")
    figures = run(PageRank(source, target, vertices), options.parallelism, options.supersteps)
    found, right = sum(one[4] for one in figures), expected_ranks(source, target, vertices, options.supersteps)
    assert abs(found / right - 1) < 1e-9, (found, right)
    print(f"PageRank: {max(one[2] for one in figures) * 1e3:.1f} ms a superstep")
    figures = run(Components(source, target, vertices), options.parallelism, 1_000)
    assert sum(one[4] for one in figures) == expected_components(source, target, vertices)
    print(f"connected components: {max(one[3] for one in figures):.3f} s, {figures[0][1]} supersteps")


if __name__ == "__main__":
    main()
