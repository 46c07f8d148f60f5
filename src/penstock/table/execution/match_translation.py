"""Match: MATCH_RECOGNIZE. Three operators: what rows of a match have, the automaton, and the measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow

from penstock.cep.automata import automaton_of
from penstock.engine.plan.transformations import Transformation
from penstock.table.execution.match_pattern import pattern_of
from penstock.table.execution.match_references import MatchReferences, Part
from penstock.table.execution.nodes.rank import sort_columns
from penstock.table.execution.translation import Translation
from penstock.table.functions.arrow_types import arrow_type
from penstock.table.logical_types import LogicalType
from penstock.table.operators.matching.match import MatchOperator, MatchParts
from penstock.table.operators.matching.match_conditions import Carried, RowCondition
from penstock.table.operators.matching.match_parts import ALL, RowValue
from penstock.table.operators.ordering.sorting import SortColumn
from penstock.table.operators.rows.calc import CalcOperator
from penstock.table.operators.table_columns import TableColumns
from penstock.table.planner.data_types import PROCTIME, ROWTIME, DataType
from penstock.table.planner.nodes.match_nodes import Match
from penstock.table.planner.rex_nodes import AnyRexNode, PatternFieldRef, RexInputRef
from penstock.table.planner.rex_trees import type_of

_TIME = "$time"
PerVariable = dict[str, list[Callable[..., bool]]]


class RowTruth:
    """A condition that was computed with the row: whether a column of it is true."""

    def __init__(self, place: int) -> None:
        self._place = place

    def __call__(self, row: Sequence[Any]) -> bool:
        """Return whether it is true, not NULL."""
        return row[self._place] is True


def translated_match(translation: Translation, node: Match, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a Match."""
    spec = node.match_spec
    (origin,) = translation.plan.inputs_of(node)
    types, received = origin.output_type.fields, translation.input(node)
    time, further = _order(translation, node)
    references = MatchReferences()
    conditions, carried = _conditions(translation, node, references)
    parts: list[Part] = []
    partition = [PatternFieldRef(alpha=ALL, index=key, type=DataType(types[key])) for key in spec.partition.fields]
    measured = [*partition, *(spec.measures[name] for name in node.output_type.names[len(partition) :])]
    measures = [references.over_parts(one, parts) for one in measured]
    if not references.rows:
        # Of rows, only that they are there.
        references.place(_column(0, types))
    if not parts:
        parts.append(Part(RowValue(ALL, False, 0, 0), type_of(references.rows[0])))
    order_by = [one._replace(place=references.place(_column(one.place, types))) for one in further]
    columns: list[AnyRexNode] = [_column(key, types) for key in spec.partition.fields]
    names = [received.names[key] for key in spec.partition.fields]
    keys = tuple(names)
    # The name is shown if a row has no time.
    time_name = None if time is None else _TIME if received.names[time] in keys else received.names[time]
    if time is not None and time_name is not None:
        columns.append(_column(time, types))
        names.append(time_name)
    first = len(columns)
    rows = translation.expressions(*columns, *references.rows)
    names += [f"${place}" for place in range(len(references.rows))]
    row_columns = _columns(names, rows.types)
    calc = CalcOperator("Rows", rows, None, received=received, given=row_columns)
    of_rows = translation.operator(node, calc, inputs, role="rows")
    given = _columns([f"${place}" for place in range(len(parts))], [one.type for one in parts])
    every = [one for of_variable in conditions.values() for one in of_variable]
    operator = MatchOperator(
        automaton_of(pattern_of(spec, lambda variable: conditions.get(variable, ())), carried.accumulators),
        MatchParts([one.part for one in parts], [one for one in every if isinstance(one, RowCondition)]),
        keys=keys,
        time=time_name,
        first=first,
        order_by=order_by,
        received=row_columns,
        given=given,
    )
    matches = translation.operator(node, operator, [of_rows])
    measuring = CalcOperator(
        "Measures", translation.expressions(*measures), None, received=given, given=translation.columns(node)
    )
    return translation.operator(node, measuring, [matches], role="measures")


def _order(translation: Translation, node: Match) -> tuple[int | None, Sequence[SortColumn]]:
    """Return the column of event time, None for processing time, and the further columns of ORDER BY."""
    (origin,) = translation.plan.inputs_of(node)
    order_by = sort_columns(node.match_spec.order_by)
    kind = origin.output_type.field_time_attributes[order_by[0].place] if order_by else None
    if kind not in (ROWTIME, PROCTIME):
        raise translation.unsupported(
            "the first column of ORDER BY must be a time attribute: a column with a WATERMARK, or PROCTIME()"
        )
    if not order_by[0].ascending:
        raise translation.unsupported("the time attribute of ORDER BY must be ascending: leave out DESC")
    return (order_by[0].place if kind == ROWTIME else None), order_by[1:]


def _conditions(translation: Translation, node: Match, references: MatchReferences) -> tuple[PerVariable, Carried]:
    """Return the conditions of each variable, and what partial matches carry for them."""
    found: PerVariable = {}
    others: dict[str, tuple[AnyRexNode, list[Part]]] = {}
    for variable, definition in node.match_spec.pattern_definitions.items():
        is_first = variable == node.match_spec.elements[0].variable
        place, rest = references.condition(definition, variable, always_tried=is_first)
        found[variable] = [] if place is None else [RowTruth(place)]
        if rest is not None:
            parts: list[Part] = []
            others[variable] = references.over_parts(rest, parts), parts
    carried = Carried([(variable, one.part) for variable, (_, parts) in others.items() for one in parts])
    for variable, (rest, parts) in others.items():
        expression = translation.scalar(rest, [one.type for one in parts])
        found[variable].append(RowCondition(expression, [one.part for one in parts], carried, variable))
    return found, carried


def _column(place: int, types: Sequence[LogicalType]) -> RexInputRef:
    return RexInputRef(index=place, type=DataType(types[place]))


def _columns(names: Sequence[str], types: Sequence[LogicalType]) -> TableColumns:
    fields = [pyarrow.field(name, arrow_type(one)) for name, one in zip(names, types, strict=True)]
    return TableColumns(pyarrow.schema(fields))
