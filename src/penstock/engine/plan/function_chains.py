"""Functions of a program that follow each other, as a chain of operators that runs outside of a job."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.functions.field_key import FieldKey
from penstock.engine.plan.frame_parts import before_partitioning
from penstock.engine.plan.function_relations import ColumnFunction, GroupFunction
from penstock.engine.plan.relations import Project
from penstock.engine.plan.transformations import Transformation
from penstock.engine.runtime.columns.conversions import ToColumnsOperator, ToRowsOperator
from penstock.engine.runtime.columns.operators import ProjectOperator
from penstock.engine.runtime.operators.group_calls import REDUCE, GroupOperator
from penstock.engine.runtime.operators.reduce import CombineOperator
from penstock.engine.runtime.task.detached_chain import DetachedOperator


class FunctionChain(NamedTuple):
    """Operators that call functions, and the stream whose rows they get."""

    operators: Sequence[DetachedOperator]
    before: Transformation
    key_fields: tuple[str, ...] = ()
    """The key of the groups of the first function; empty if the function gets whole partitions."""
    combiner: Sequence[DetachedOperator] = ()
    """What reduces the rows of each key before they are brought together, if the function of groups allows it."""


def function_chain(end: Transformation, timed: Collection[int]) -> FunctionChain:
    """Return the longest chain of functions that ends with a stream; the chain is empty if something else ends it.

    `timed`: the ids of streams whose records have the last timestamp.
    """
    streams: list[Transformation] = []
    stream = end
    while isinstance(relation := stream.relation, (ColumnFunction, Project)):
        streams.append(stream)
        stream = before_partitioning(relation.inputs[0])
    key_fields: tuple[str, ...] = ()
    combiner: list[DetachedOperator] = []
    if isinstance(relation, GroupFunction):
        streams.append(stream)
        before = before_partitioning(relation.inputs[0])
        key_fields, combiner = relation.key_fields, _combiner(stream, relation, before.id in timed)
        stream = before
    while streams and isinstance(streams[-1].relation, Project):
        # Columns that no function gets need not leave Spark.
        stream = streams.pop()
    operators = [one for stream in reversed(streams) for one in _operators_of(stream, stream.id in timed)]
    return FunctionChain(operators, stream, key_fields, combiner)


def _combiner(stream: Transformation, relation: GroupFunction, timed: bool) -> list[DetachedOperator]:
    function = relation.operator.function_places()[0].function
    # Records with a time are reduced in its order, as operators do.
    if relation.how != REDUCE or timed or not getattr(function.instance, "is_combinable", False):
        return []
    columns, name, uid = RecordColumns(relation.received), f"{stream.name} (combine)", stream.uid or ""
    combine = CombineOperator(name, FieldKey(relation.key_fields), function)
    return [DetachedOperator(one, name, uid) for one in (ToRowsOperator(columns), combine, ToColumnsOperator(columns))]


def _operators_of(stream: Transformation, timed: bool) -> list[DetachedOperator]:
    relation, name, uid = stream.relation, stream.name, stream.uid or ""
    match relation:
        case ColumnFunction():
            return [DetachedOperator(relation.operator, name, uid)]
        case Project():
            received = RecordColumns(relation.inputs[0].output_type)
            return [DetachedOperator(ProjectOperator(received, received.only(relation.names)), name)]
        case GroupFunction():
            to_rows = ToRowsOperator(RecordColumns(relation.received))
            time = MAX_TIMESTAMP if timed else None
            group = GroupOperator(FieldKey(relation.key_fields), relation.operator, relation.how, time)
            to_columns = ToColumnsOperator(RecordColumns(relation.given))
            declared = relation.given if relation.given.applies else None
            return [
                DetachedOperator(to_rows, name, uid),
                DetachedOperator(group, name, uid, declared),
                DetachedOperator(to_columns, name, uid),
            ]
    raise AssertionError(f"{relation} calls no function")
