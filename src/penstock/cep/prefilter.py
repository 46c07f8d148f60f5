"""The filter before the exchange: where it is correct, and how a keyed stream gets it.

An event that meets no condition changes nothing where contiguity is relaxed: every state passes it over. Where it is
strict, such an event ends partial matches, and all of them must arrive: two of them in one chunk may have an event of
another chunk between them in event time, so not even the second one can be left out.
"""

from __future__ import annotations

from typing import Any

from penstock.cep.automaton import Automaton
from penstock.cep.operators.pattern_filter import PatternFilterOperator
from penstock.datastream.column_types import given_columns
from penstock.datastream.keyed_stream import KeyedStream
from penstock.engine.plan.transformations import DeployedTransformation, OperatorTransformation, PartitionTransformation
from penstock.engine.runtime.network.partitioners import HashPartitioner
from penstock.engine.runtime.operators.operator import Operator

_CONDITIONS_MAX = 80
"""Length of the conditions in the filter's name, in characters."""


class FilterTransformation(OperatorTransformation):
    """A filter, which always has the parallelism of its input: otherwise events of a key could overtake each other."""

    @property
    def parallelism(self) -> int | None:
        """Return the parallelism of the input."""
        return self.inputs[0].parallelism

    @parallelism.setter
    def parallelism(self, parallelism: int | None) -> None:
        pass


def may_filter(automaton: Automaton[Any], timeouts: bool) -> bool:
    """Return whether some events may be dropped: those that meet no simple condition change nothing in any state."""
    return bool(automaton.predicate_texts) and automaton.may_drop(0, timeouts)


def filtered(stream: KeyedStream[Any, Any], automaton: Automaton[Any], timeouts: bool) -> KeyedStream[Any, Any]:
    """Return the stream with a filter before its exchange; the stream itself if no event can be dropped.

    `timeouts`: whether they have a receiver.
    """
    before, environment = stream._without_key, stream.environment
    if not may_filter(automaton, timeouts) or not isinstance(before, DeployedTransformation):
        return stream
    conditions = " or ".join(dict.fromkeys(automaton.predicate_texts))
    if len(conditions) > _CONDITIONS_MAX:
        conditions = conditions[: _CONDITIONS_MAX - 2] + " …"
    name = f"Pattern filter: {conditions}"
    columns = given_columns(before)
    operator: Operator
    if columns is None:
        operator = PatternFilterOperator(name, automaton, timeouts)
    else:
        from penstock.cep.operators.column_filter import ColumnPatternFilterOperator

        operator = ColumnPatternFilterOperator(name, automaton, timeouts, columns)
    kept = FilterTransformation(
        id=environment.next_id(), name=name, inputs=[before], operator=operator, output_type=before.output_type
    )
    kept.is_nameless = True
    select = stream.key_selector
    return KeyedStream(
        environment=environment,
        transformation=PartitionTransformation(environment.next_id(), kept, HashPartitioner(select)),
        before=kept,
        key_selector=select,
        key_type=stream._key_type,
    )
