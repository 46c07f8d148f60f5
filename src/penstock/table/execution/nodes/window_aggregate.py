"""WindowAggregate in one phase and in two, and the older GroupWindowAggregate."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow

from penstock.engine.plan.transformations import Transformation
from penstock.table.execution.durations import milliseconds
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation
from penstock.table.execution.windows import window_times
from penstock.table.operators.aggregates.aggregate_calls import Calls
from penstock.table.operators.aggregates.partial_columns import partial_columns
from penstock.table.operators.windows.aggregated_windows import AggregatedWindowsOperator
from penstock.table.operators.windows.local_window_aggregate import LocalWindowAggregateOperator
from penstock.table.operators.windows.session_windows import SessionAggregateOperator
from penstock.table.operators.windows.window_aggregate import (
    SLICE_END,
    GlobalWindowAggregateOperator,
    WindowAggregateOperator,
)
from penstock.table.operators.windows.window_slices import HOP, SESSION, TUMBLE, WindowSlices, WindowTimes
from penstock.table.planner.data_types import PROCTIME
from penstock.table.planner.nodes.aggregate_nodes import (
    AggregateCall,
    GlobalWindowAggregate,
    GroupWindowAggregate,
    LocalWindowAggregate,
    WindowAggregate,
)
from penstock.table.planner.nodes.base import ExecNode
from penstock.table.planner.nodes.specs import NamedWindowProperty


@translates(WindowAggregate)
def window_aggregate(
    translation: Translation, node: WindowAggregate, inputs: Sequence[Transformation]
) -> Transformation:
    """Translate a WindowAggregate."""
    times = window_times(node.windowing, translation.input(node), translation)
    return translation.operator(node, _in_one_phase("WindowAggregate", translation, node, times), inputs)


@translates(LocalWindowAggregate)
def local_window_aggregate(
    translation: Translation, node: LocalWindowAggregate, inputs: Sequence[Transformation]
) -> Transformation:
    """Translate a LocalWindowAggregate: the columns of the key, partials, and the end of the slice."""
    received = translation.input(node)
    (origin,) = translation.plan.inputs_of(node)
    keys = [received.names[place] for place in node.grouping]
    calls = _calls(node.agg_calls, origin, needs_retraction=node.need_retraction)
    given = partial_columns(
        [received.schema.field(name) for name in keys],
        calls.aggregates(),
        [pyarrow.field(SLICE_END, pyarrow.int64())],
    )
    translation.gives(node, given)
    operator = LocalWindowAggregateOperator(
        "LocalWindowAggregate",
        keys,
        calls,
        window_times(node.windowing, received, translation),
        received=received,
        given=given,
    )
    return translation.operator(node, operator, inputs)


@translates(GlobalWindowAggregate)
def global_window_aggregate(
    translation: Translation, node: GlobalWindowAggregate, inputs: Sequence[Transformation]
) -> Transformation:
    """Translate a GlobalWindowAggregate, whose input comes from a LocalWindowAggregate."""
    local = _local_of(translation, node)
    (origin,) = translation.plan.inputs_of(local)
    received = translation.input(node)
    operator = GlobalWindowAggregateOperator(
        "GlobalWindowAggregate",
        received.names[: len(local.grouping)],
        _calls(local.agg_calls, origin, needs_retraction=local.need_retraction),
        window_times(local.windowing, translation.input(local), translation),
        properties=_properties(node.named_window_properties),
        received=received,
        given=translation.columns(node),
    )
    return translation.operator(node, operator, inputs)


@translates(GroupWindowAggregate)
def group_window_aggregate(
    translation: Translation, node: GroupWindowAggregate, inputs: Sequence[Transformation]
) -> Transformation:
    """Translate a GroupWindowAggregate."""
    window, received = node.window, translation.input(node)
    (origin,) = translation.plan.inputs_of(node)
    kind = window.kind.upper()
    if not window.is_time_window:
        raise translation.unsupported("windows of a number of rows can't be executed yet: use windows of time")
    kinds = {"TUMBLING": TUMBLE, "SLIDING": HOP, "SESSION": SESSION}
    size = milliseconds(str(window.gap if kind == "SESSION" else window.size))
    slices = WindowSlices(kinds[kind], size, milliseconds(str(window.slide)) if kind == "SLIDING" else size)
    time = window.time_field
    place = time.field_index
    is_event_time = origin.output_type.field_time_attributes[place] != PROCTIME
    zone = translation.window_zone(time.field_type.logical)
    times = WindowTimes(slices, received.names[place] if is_event_time else None, is_event_time, zone)
    return translation.operator(node, _in_one_phase("GroupWindowAggregate", translation, node, times), inputs)


def _in_one_phase(
    name: str, translation: Translation, node: WindowAggregate | GroupWindowAggregate, times: WindowTimes
) -> AggregatedWindowsOperator:
    """Return the operator of windows in one phase."""
    received, given = translation.input(node), translation.columns(node)
    (origin,) = translation.plan.inputs_of(node)
    keys = [received.names[place] for place in node.grouping]
    calls = _calls(node.agg_calls, origin, needs_retraction=node.need_retraction)
    shown = _properties(node.named_window_properties)
    if times.slices.kind == SESSION:
        return SessionAggregateOperator(name, keys, calls, times, properties=shown, received=received, given=given)
    return WindowAggregateOperator(name, keys, calls, times, properties=shown, received=received, given=given)


def _calls(calls: tuple[AggregateCall, ...], origin: ExecNode, *, needs_retraction: bool) -> Calls:
    return Calls(calls, origin.output_type.fields, (needs_retraction,) * len(calls))


def _properties(properties: Sequence[NamedWindowProperty]) -> list[str]:
    return [one.property.kind for one in properties]


def _local_of(translation: Translation, node: GlobalWindowAggregate) -> LocalWindowAggregate:
    (origin,) = translation.plan.inputs_of(node)
    while not isinstance(origin, LocalWindowAggregate):
        (origin,) = translation.plan.inputs_of(origin)
    return origin
