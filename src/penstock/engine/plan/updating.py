"""Other functions for a running job: what of a new program may take the place of what runs, and what may not.

The new program has the same operators, by uid, with the same edges between them. Of operators that call functions of
the user's for records, these functions may differ; all else that a program says has to be the same. Parallelism stays
what the job has. Source: State Management paper, 3.3.1; Flink docs, "Upgrading Applications and Flink Versions".
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock.common.errors import JobError
from penstock.engine.plan import program_pickler
from penstock.engine.plan.job_graph import JobGraph, applied_type
from penstock.engine.plan.same_code import described, loaded_apart, same_code
from penstock.engine.plan.stream_graph import StreamNode
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.task.function_update import NewFunctions
from penstock.engine.runtime.windows.windowing import WindowingOperator

_ADVICE = "That needs a new start: penstock stop JOB, penstock run -s SAVEPOINT NEW"

_FOLLOWING = ("name", "captured", "given", "function", "second", "instance", "method")
"""What is a function, or follows from one. And the name: a job's metrics and logs go on under the one that it has."""


class Update(NamedTuple):
    """What an update is."""

    graph: JobGraph
    """The plan with the new functions."""
    functions: dict[int, list[NewFunctions]]
    """By vertex: those that are new."""
    operators: list[str]
    """Names of the operators that have new functions."""


def updated(graph: JobGraph, program: JobGraph) -> Update:
    """The plan of a running job with the functions of a new program.

    Raises JobError if something else is different, or nothing is.
    """
    if graph.batched or program.batched:
        raise JobError("only a job in STREAMING mode can be updated while it runs")
    new = {node.uid: node for node in _nodes(program)}
    _check_operators({node.uid: node for node in _nodes(graph)}, new)
    _check_edges(graph, program)
    functions: dict[int, list[NewFunctions]] = {}
    changed: dict[int, StreamNode] = {}
    for vertex in graph.vertices:
        for index, node in enumerate(vertex.nodes):
            other = new[node.uid]
            if _is_changed(node, other):
                operator = copy.copy(other.operator)
                operator.name = node.operator.name
                changed[node.id] = dataclasses.replace(node, operator=operator)
                functions.setdefault(vertex.id, []).append(NewFunctions(index, _pickled(operator)))
    if not changed:
        raise JobError(
            f"'{graph.name}' has these functions already. Functions of modules are sent by name, and workers have the "
            "modules with which the job was started: only what stands in the program itself can be new"
        )
    return Update(graph.with_nodes(changed), functions, [node.name for node in changed.values()])


def _nodes(graph: JobGraph) -> Iterator[StreamNode]:
    for vertex in graph.vertices:
        yield from vertex.nodes


def _check_operators(old: dict[str, StreamNode], new: dict[str, StreamNode]) -> None:
    gone, come = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
    if gone or come:
        parts = [f"{what} {', '.join(map(repr, uids))}" for what, uids in (("lacks", gone), ("adds", come)) if uids]
        raise JobError(
            f"the new program {' and '.join(parts)}: the operators have to be those of the job, by uid (an operator "
            f"without one is known by its position and name). {_ADVICE}"
        )


def _check_edges(graph: JobGraph, program: JobGraph) -> None:
    old, new = _edges(graph), _edges(program)
    for name in old.keys() | new.keys():
        if old.get(name) != new.get(name):
            source, target = name[:2]
            what = "is partitioned in another way, or by another key selector" if name in old and name in new else (
                "is not in the new program" if name in old else "is not in the job"
            )  # fmt: skip
            raise JobError(
                f"what '{source}' sends to '{target}' {what}. Keyed state belongs to keys, and would be lost or mixed "
                f"up; a new program needs the parallelism that the job was started with, too (-p). {_ADVICE}"
            )


def _edges(graph: JobGraph) -> dict[tuple[Any, ...], Any]:
    uids = {node.id: node.uid for node in _nodes(graph)}
    edges = graph.stream_graph.edges
    return {
        (uids[e.source], uids[e.target], e.input_index, e.tag and e.tag.tag_id): (
            type(e.partitioner).__name__,
            [described(call) for call in e.partitioner.calls()],
        )
        for e in edges
    }


def _is_changed(node: StreamNode, other: StreamNode) -> bool:
    """Whether its functions are others. Raises JobError if more than that is."""
    old, new = _as_given(node.operator), _as_given(other.operator)
    if type(old) is not type(new):
        raise JobError(f"'{node.name}' is an operator of another kind in the new program. {_ADVICE}")
    if not same_code(applied_type(node), applied_type(other)):
        raise JobError(f"'{node.name}' has another output type in the new program. {_ADVICE}")
    places, others = old.function_places(), new.function_places()
    if len(places) != len(others):
        raise JobError(f"'{node.name}' has another number of functions in the new program. {_ADVICE}")
    functions = [(one.function, another.function) for one, another in zip(places, others, strict=True)]
    but = [*functions, *((one.owner, another.owner) for one, another in zip(places, others, strict=True))]
    parts, of_other = _parts(old), _parts(new)
    for name in sorted(parts.keys() | of_other.keys()):
        if not same_code(parts.get(name), of_other.get(name), but):
            fixed = "" if places else ": it has no function that could be replaced alone"
            raise JobError(f"'{node.name}' differs in more than its functions ('{name}'){fixed}. {_ADVICE}")
    if all(same_code(one, another) for one, another in functions):
        return False
    if old.holds_functions:
        raise JobError(f"calls of '{node.name}' are under way while barriers pass, and their results. {_ADVICE}")
    if not _keeps_alike(old, new):
        raise JobError(f"'{node.name}' would keep what is in its windows in another form. {_ADVICE}")
    return True


def _as_given(operator: Operator) -> Operator:
    """The operator as its workers have it: what the program refers to may have changed since. Raises JobError."""
    if operator.captured is None:
        return operator
    try:
        given: Operator = loaded_apart(operator.captured)
    except Exception as error:
        raise JobError(
            f"'{operator.name}' can't be compared with that of the job: {type(error).__name__}: {error}. {_ADVICE}"
        ) from error
    for name in operator.set_on_submission:
        setattr(given, name, getattr(operator, name))
    return given


def _parts(operator: Operator) -> dict[str, Any]:
    """What an operator, and the parts of it that hold its functions, consist of, by name."""
    owners = [operator, *(place.owner for place in operator.function_places())]
    return {name.strip("_"): part for one in owners for name, part in vars(one).items() if name not in _FOLLOWING}


def _keeps_alike(old: Operator, new: Operator) -> bool:
    """Whether windows that overlap share their parts with both functions, or with none."""
    if not (isinstance(old, WindowingOperator) and isinstance(new, WindowingOperator)):
        return True
    one, another = old.contents, new.contents
    return one.shares == another.shares and one.can_merge() == another.can_merge()


def _pickled(operator: Operator) -> bytes:
    if operator.captured is None:
        return program_pickler.dumps(_functions_of(operator))
    return program_pickler.dumps(_FunctionsOf(operator))


class _FunctionsOf:
    """Where it arrives in a pickle: the functions of an operator."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def __reduce__(self) -> tuple[Any, ...]:
        return _functions_of, (self._operator,)


def _functions_of(operator: Operator) -> list[UserFunction]:
    return [place.function for place in operator.function_places()]
