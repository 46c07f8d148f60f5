"""Replace functions in the plan of a running job by those of a new program.

The new program has the same operators, by uid, with the same edges between them. Functions that operators call for
records may differ; everything else in the program has to be the same. The job keeps its parallelism. Source: State
Management paper, 3.3.1; Flink docs, "Upgrading Applications and Flink Versions".
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock.common.errors import JobError
from penstock.engine.plan import program_pickler
from penstock.engine.plan.job_graph import JobGraph, applied_type
from penstock.engine.plan.same_code import describe, load_separately, same_code
from penstock.engine.plan.stream_graph import StreamNode
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.task.function_update import NewFunctions
from penstock.engine.runtime.windows.windowing import WindowingOperator

_ADVICE = (
    "For this change, stop the job and start it from the savepoint: penstock stop JOB, penstock run -s SAVEPOINT NEW"
)

_MAY_DIFFER = ("name", "captured", "given", "function", "second", "instance", "method")
"""Attributes that are functions or derived from functions; and the name, which metrics and logs keep."""


class Update(NamedTuple):
    """An update of a job's functions."""

    graph: JobGraph
    """The plan with the new functions."""
    functions: dict[int, list[NewFunctions]]
    """The new functions, by vertex."""
    operators: list[str]
    """Names of the operators that have new functions."""


def updated(graph: JobGraph, program: JobGraph) -> Update:
    """Return the plan of a running job with the functions of a new program.

    Raises JobError if something other than functions differs, or nothing differs.
    """
    if not (graph.mode.has_job_master and program.mode.has_job_master):
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
            f"'{graph.name}' already has these functions. Only functions that are defined in the program itself can "
            "be updated: workers keep the modules with which the job was started"
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
            f"the new program {' and '.join(parts)}: it must have the job's operators, by uid (by position and name if "
            f"an operator has no uid). {_ADVICE}"
        )


def _check_edges(graph: JobGraph, program: JobGraph) -> None:
    old, new = _edges(graph), _edges(program)
    for name in old.keys() | new.keys():
        if old.get(name) != new.get(name):
            source, target = name[:2]
            what = "has another partitioner or key selector" if name in old and name in new else (
                "is not in the new program" if name in old else "is not in the job"
            )  # fmt: skip
            raise JobError(
                f"the edge from '{source}' to '{target}' {what}. Keyed state belongs to keys, and would be lost or "
                f"mixed up; the new program also needs the parallelism with which the job was started (-p). {_ADVICE}"
            )


def _edges(graph: JobGraph) -> dict[tuple[Any, ...], Any]:
    uids = {node.id: node.uid for node in _nodes(graph)}
    edges = graph.stream_graph.edges
    return {
        (uids[e.source], uids[e.target], e.input_index, e.tag and e.tag.tag_id): (
            type(e.partitioner).__name__,
            [describe(call) for call in e.partitioner.calls()],
        )
        for e in edges
    }


def _is_changed(node: StreamNode, other: StreamNode) -> bool:
    """Return whether the operator's functions differ. Raises JobError if anything else differs."""
    old, new = _as_sent(node.operator), _as_sent(other.operator)
    if type(old) is not type(new):
        raise JobError(f"'{node.name}' is another kind of operator in the new program. {_ADVICE}")
    if not same_code(applied_type(node), applied_type(other)):
        raise JobError(f"'{node.name}' has another output type in the new program. {_ADVICE}")
    places, others = old.function_places(), new.function_places()
    if len(places) != len(others):
        raise JobError(f"'{node.name}' has another number of functions in the new program. {_ADVICE}")
    functions = [(one.function, another.function) for one, another in zip(places, others, strict=True)]
    may_differ = [*functions, *((one.owner, another.owner) for one, another in zip(places, others, strict=True))]
    parts, of_other = _parts(old), _parts(new)
    for name in sorted(parts.keys() | of_other.keys()):
        if not same_code(parts.get(name), of_other.get(name), may_differ):
            fixed = "" if places else ": it has no function that can be replaced alone"
            raise JobError(f"'{node.name}' differs in more than its functions ('{name}'){fixed}. {_ADVICE}")
    if all(same_code(one, another) for one, another in functions):
        return False
    if old.holds_functions:
        raise JobError(
            f"the functions of '{node.name}' can't be replaced at a barrier: some of their calls have not returned "
            f"yet. {_ADVICE}"
        )
    if not _stores_alike(old, new):
        raise JobError(f"'{node.name}' would store the content of its windows in another form. {_ADVICE}")
    return True


def _as_sent(operator: Operator) -> Operator:
    """Return the operator as workers have it: objects that it refers to may have changed since. Raises JobError."""
    if operator.captured is None:
        return operator
    try:
        given: Operator = load_separately(operator.captured)
    except Exception as error:
        raise JobError(
            f"can't compare '{operator.name}' with the job's operator: {type(error).__name__}: {error}. {_ADVICE}"
        ) from error
    for name in operator.set_on_submission:
        setattr(given, name, getattr(operator, name))
    return given


def _parts(operator: Operator) -> dict[str, Any]:
    """Return the attributes of an operator and of its parts that hold functions, by name."""
    owners = [operator, *(place.owner for place in operator.function_places())]
    return {name.strip("_"): part for one in owners for name, part in vars(one).items() if name not in _MAY_DIFFER}


def _stores_alike(old: Operator, new: Operator) -> bool:
    """Return whether both functions store the same content, and overlapping windows share it with both or neither."""
    if not (isinstance(old, WindowingOperator) and isinstance(new, WindowingOperator)):
        return True
    one, another = old.contents, new.contents
    same_content = str(one.schema()) == str(another.schema())
    return same_content and one.shares == another.shares and one.can_merge() == another.can_merge()


def _pickled(operator: Operator) -> bytes:
    if operator.captured is None:
        return program_pickler.dumps(_functions_of(operator))
    return program_pickler.dumps(_FunctionsOf(operator))


class _FunctionsOf:
    """A value whose unpickled form is the list of an operator's functions."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def __reduce__(self) -> tuple[Any, ...]:
        return _functions_of, (self._operator,)


def _functions_of(operator: Operator) -> list[UserFunction]:
    return [place.function for place in operator.function_places()]
