"""Change the parallelism in the plan of a running job, between two attempts.

Operators stay in their chains: vertices, edges and levels stay those of the submitted plan, so that state and metrics
keep their names. Vertices with a forward edge between them have one parallelism. Source: Flink docs, "Elastic Scaling",
Externalized Declarative Resource Management.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.common.errors import JobError
from penstock.engine.plan.job_graph import JobGraph, JobVertex
from penstock.engine.plan.regions import regions_of


def requested_parallelism(graph: JobGraph, parallelism: int | None, operators: Mapping[str, int]) -> dict[int, int]:
    """Return the parallelism of each vertex that a request changes.

    `parallelism`: for the whole job, or None. `operators`: for single operators, by name or uid. Raises JobError.
    """
    whole = parallelism_of_job(graph, parallelism) if parallelism is not None else {}
    return {**whole, **parallelism_of_operators(graph, operators)}


def parallelism_of_job(graph: JobGraph, parallelism: int) -> dict[int, int]:
    """Return `parallelism` for each vertex that `penstock run -p` would change: its operators do not set their own.

    Raises JobError if there is no such vertex.
    """
    chosen: dict[int, int] = {}
    for group in groups_of_equal_parallelism(graph):
        if all(_follows_the_default(graph.vertices[id]) for id in group):
            chosen.update(dict.fromkeys(group, parallelism))
    if not chosen:
        raise JobError(
            f"'{graph.name}' has no operator that follows the job's parallelism: in each chain, the program sets the "
            "parallelism of an operator. Name operators and their parallelism: penstock scale JOB --operator NAME=4"
        )
    return chosen


def parallelism_of_operators(graph: JobGraph, parallelism: Mapping[str, int]) -> dict[int, int]:
    """Return the parallelism of vertices, given by names or uids of operators.

    Raises JobError if no operator or several operators have a name, or if two of one chain get different values.
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
            what = f"several operators have the name '{name}'" if found else f"there is no operator '{name}'"
            raise JobError(f"{what} in '{graph.name}': use the name or the uid of one of its operators, {names}")
        id = found.pop()
        if chosen.setdefault(id, subtasks) != subtasks:
            raise JobError(
                f"'{name}' can't have parallelism {subtasks} while another operator of its chain "
                f"'{graph.vertices[id].name}' has parallelism {chosen[id]}: name only one of them"
            )
    return chosen


def rescaled(graph: JobGraph, parallelism: Mapping[int, int]) -> JobGraph:
    """Return the plan with new numbers of subtasks, by vertex; vertices that are not named keep theirs.

    Raises JobError if a vertex cannot have that number, or only together with another vertex.
    """
    if not graph.mode.takes_checkpoints:
        raise JobError(f"'{graph.name}' can't be rescaled: it runs in BATCH mode, without checkpoints to restore")
    for id, subtasks in parallelism.items():
        _check(graph.vertices[id], subtasks)
    after = {vertex.id: parallelism.get(vertex.id, vertex.parallelism) for vertex in graph.vertices}
    for source, target in _forward(graph):
        if after[source] != after[target]:
            one, other = graph.vertices[source], graph.vertices[target]
            raise JobError(
                f"'{one.name}' (parallelism {after[source]}) and '{other.name}' (parallelism {after[target]}) need "
                "the same parallelism: each subtask sends records to the subtask of the same number"
            )
    return graph.with_parallelism(after)


def groups_of_equal_parallelism(graph: JobGraph) -> list[list[int]]:
    """Return groups of vertices that need the same parallelism because forward edges connect them."""
    return regions_of([vertex.id for vertex in graph.vertices], _forward(graph))


def fixed_parallelism(vertex: JobVertex) -> str | None:
    """Return why a vertex cannot have another parallelism, or None if it can."""
    return next((reason for node in vertex.nodes if (reason := node.transformation.parallelism_fixed)), None)


def _check(vertex: JobVertex, subtasks: int) -> None:
    fixed = fixed_parallelism(vertex)
    if fixed is not None and subtasks != vertex.parallelism:
        raise JobError(f"'{vertex.name}' can't have parallelism {subtasks}: {fixed}")
    most = min(node.max_parallelism for node in vertex.nodes)
    if not 1 <= subtasks <= most:
        raise JobError(
            f"'{vertex.name}' can't have parallelism {subtasks}: expected 1 to {most}, its maximum parallelism"
        )


def _follows_the_default(vertex: JobVertex) -> bool:
    return all(node.transformation.parallelism is None for node in vertex.nodes)


def _forward(graph: JobGraph) -> list[tuple[int, int]]:
    return [(edge.source, edge.target) for edge in graph.edges if edge.stream_edge.partitioner.keeps_subtask]


def max_subtasks(graph: JobGraph, reactive: bool) -> dict[int, int]:
    """Return the most subtasks for each vertex: its parallelism in the plan, or if `reactive` its maximum."""
    most: dict[int, int] = {}
    for group in groups_of_equal_parallelism(graph):
        vertices = [graph.vertices[id] for id in group]
        is_fixed = not reactive or any(fixed_parallelism(vertex) is not None for vertex in vertices)
        limit = min(min(node.max_parallelism for node in vertex.nodes) for vertex in vertices)
        most |= {vertex.id: vertex.parallelism if is_fixed else limit for vertex in vertices}
    return most


def fit_to_slots(graph: JobGraph, most: Mapping[int, int], slots: int) -> JobGraph:
    """Return the plan with the highest parallelism that fits into `slots`, at least 1 even if that does not fit.

    The parallelism is the same for all operators, up to the limit of each in `most`. Source: Flink docs, "Elastic
    Scaling", Reactive Mode. There a slot hosts a task of each operator; here each level of the plan has its own slots.
    """
    fixed = {id for group in groups_of_equal_parallelism(graph) for id in group if _is_fixed(graph, group)}

    def plan(subtasks: int) -> JobGraph:
        return graph.with_parallelism(
            {id: limit if id in fixed else min(subtasks, limit) for id, limit in most.items()}
        )

    low, high = 1, max(most.values())
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if plan(middle).slots <= slots else (low, middle - 1)
    return plan(low)


def _is_fixed(graph: JobGraph, group: list[int]) -> bool:
    return any(fixed_parallelism(graph.vertices[id]) is not None for id in group)
