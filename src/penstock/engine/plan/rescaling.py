"""The plan of a running job with other parallelism: what may change between two attempts, and what may not.

Operators stay in the chains that they are in: vertices, edges and levels are those of the plan that the job was
submitted with, so that its state and its metrics go on under their names. Vertices with a forward edge between them
keep one parallelism. Source: Flink docs, "Elastic Scaling", Externalized Declarative Resource Management.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.common.errors import JobError
from penstock.engine.plan.job_graph import JobGraph, JobVertex
from penstock.engine.plan.regions import regions_of
from penstock.engine.runtime.network.partitioners import ForwardPartitioner


def wanted(graph: JobGraph, parallelism: int | None, operators: Mapping[str, int]) -> dict[int, int]:
    """By vertex: `parallelism` of the whole job, if it is given, and that of operators, by name or uid.

    Raises JobError.
    """
    whole = of_whole_job(graph, parallelism) if parallelism is not None else {}
    return {**whole, **of_operators(graph, operators)}


def of_whole_job(graph: JobGraph, parallelism: int) -> dict[int, int]:
    """What `penstock run -p` would set: the parallelism of each vertex whose operators have none of their own.

    Raises JobError if there is no such vertex.
    """
    chosen: dict[int, int] = {}
    for group in together(graph):
        if all(_follows_the_default(graph.vertices[id]) for id in group):
            chosen.update(dict.fromkeys(group, parallelism))
    if not chosen:
        raise JobError(
            f"'{graph.name}' has no operator that follows the job's parallelism: each is in a chain with one whose "
            "program sets it. Name operators and their parallelism: penstock scale JOB --operator NAME=4"
        )
    return chosen


def of_operators(graph: JobGraph, parallelism: Mapping[str, int]) -> dict[int, int]:
    """By names or uids of operators.

    Raises JobError if there is none, or more than one, of that name, or if two of them are in one chain and differ.
    """
    chosen: dict[int, int] = {}
    for name, subtasks in parallelism.items():
        found = {
            vertex.id
            for vertex in graph.vertices
            if name == vertex.name or any(name in (node.name, node.uid) for node in vertex.nodes)
        }
        if len(found) != 1:
            names = ", ".join(f"'{node.name}' (uid {node.uid})" for vertex in graph.vertices for node in vertex.nodes)
            how_many = "no operator" if not found else "several operators, of which a uid names one,"
            raise JobError(f"'{name}' is {how_many} of '{graph.name}', which has {names}")
        id = found.pop()
        if chosen.setdefault(id, subtasks) != subtasks:
            raise JobError(
                f"'{name}' can't have parallelism {subtasks} and another operator of the chain "
                f"'{graph.vertices[id].name}' {chosen[id]}: name one of them"
            )
    return chosen


def rescaled(graph: JobGraph, parallelism: Mapping[int, int]) -> JobGraph:
    """The plan with other numbers of subtasks, by vertex; the others keep theirs.

    Raises JobError if a vertex can't have so many, or only together with another one.
    """
    if graph.batched:
        raise JobError(f"'{graph.name}' runs in BATCH mode, without checkpoints from which it could go on")
    for id, subtasks in parallelism.items():
        _check(graph.vertices[id], subtasks)
    after = {vertex.id: parallelism.get(vertex.id, vertex.parallelism) for vertex in graph.vertices}
    for source, target in _forward(graph):
        if after[source] != after[target]:
            one, other = graph.vertices[source], graph.vertices[target]
            raise JobError(
                f"'{one.name}' (parallelism {after[source]}) and '{other.name}' (parallelism {after[target]}) need "
                "the same parallelism: records go from each subtask to the one of the same number"
            )
    return graph.with_parallelism(after)


def together(graph: JobGraph) -> list[list[int]]:
    """The vertices that need one parallelism, because records go from each subtask to the one of the same number."""
    return regions_of([vertex.id for vertex in graph.vertices], _forward(graph))


def fixed_parallelism(vertex: JobVertex) -> str | None:
    """Why a vertex can't have another parallelism; None: it can."""
    return next((reason for node in vertex.nodes if (reason := node.transformation.parallelism_fixed)), None)


def _check(vertex: JobVertex, subtasks: int) -> None:
    fixed = fixed_parallelism(vertex)
    if fixed is not None and subtasks != vertex.parallelism:
        raise JobError(f"'{vertex.name}' can't have parallelism {subtasks}: {fixed}")
    most = min(node.max_parallelism for node in vertex.nodes)
    if not 1 <= subtasks <= most:
        raise JobError(
            f"'{vertex.name}' can't have parallelism {subtasks}: it is between 1 and its maximum parallelism, {most}"
        )


def _follows_the_default(vertex: JobVertex) -> bool:
    return all(node.transformation.parallelism is None for node in vertex.nodes)


def _forward(graph: JobGraph) -> list[tuple[int, int]]:
    return [
        (edge.source, edge.target) for edge in graph.edges if type(edge.stream_edge.partitioner) is ForwardPartitioner
    ]


# The parallelism that a number of slots allows: the same for all operators, as far as each of them may have it.
#
# Source: Flink docs, "Elastic Scaling", Reactive Mode. There a slot hosts a task of each operator; here each level of
# the plan has slots of its own.


def highest(graph: JobGraph, reactive: bool) -> dict[int, int]:
    """The most subtasks that each vertex is to have: what the plan has; `reactive`: what it could have."""
    most: dict[int, int] = {}
    for group in together(graph):
        vertices = [graph.vertices[id] for id in group]
        is_fixed = not reactive or any(fixed_parallelism(vertex) is not None for vertex in vertices)
        limit = min(min(node.max_parallelism for node in vertex.nodes) for vertex in vertices)
        most |= {vertex.id: vertex.parallelism if is_fixed else limit for vertex in vertices}
    return most


def fitted(graph: JobGraph, most: Mapping[int, int], slots: int) -> JobGraph:
    """The plan with as many subtasks as so many slots allow: at least one of each vertex, though it may not fit."""
    fixed = {id for group in together(graph) for id in group if _is_fixed(graph, group)}

    def plan(subtasks: int) -> JobGraph:
        return graph.with_parallelism(
            {id: highest if id in fixed else min(subtasks, highest) for id, highest in most.items()}
        )

    low, high = 1, max(most.values())
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if plan(middle).slots <= slots else (low, middle - 1)
    return plan(low)


def _is_fixed(graph: JobGraph, group: list[int]) -> bool:
    return any(fixed_parallelism(graph.vertices[id]) is not None for id in group)
