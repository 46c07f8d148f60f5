"""WindowAggregate in one phase and in two, and the older GroupWindowAggregate.

In two phases, the local one sends rows, with the columns that the global one reads: aggregation before the exchange is
not done yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pyarrow

from penstock.engine.plan.transformations import Transformation
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation
from penstock.table.execution.windows import milliseconds, window_times
from penstock.table.operators.aggregate_calls import Calls
from penstock.table.operators.scan import ScanOperator
from penstock.table.operators.table_columns import TableColumns
from penstock.table.operators.window_aggregate import WindowAggregateOperator, WindowTimes
from penstock.table.operators.window_slices import HOP, TUMBLE, WindowSlices
from penstock.table.planner.data_types import PROCTIME
from penstock.table.planner.nodes.aggregate_nodes import (
    AggregateCall,
    GlobalWindowAggregate,
    GroupWindowAggregate,
    LocalWindowAggregate,
    WindowAggregate,
)
from penstock.table.planner.nodes.base import ExecNode
from penstock.table.planner.nodes.specs import (
    AnyWindowing,
    NamedWindowProperty,
    TimeAttributeWindowing,
    WindowAttachedWindowing,
)


@translates(WindowAggregate)
def window_aggregate(
    translation: Translation, node: WindowAggregate, inputs: Sequence[Transformation]
) -> Transformation:
    """Translate a WindowAggregate."""
    received = translation.input(node)
    (origin,) = translation.plan.inputs_of(node)
    operator = WindowAggregateOperator(
        "WindowAggregate",
        [received.names[place] for place in node.grouping],
        _calls(node.agg_calls, origin, needs_retraction=node.need_retraction),
        window_times(node.windowing, received, translation),
        properties=_properties(node.named_window_properties),
        received=received,
        given=translation.columns(node),
    )
    return translation.operator(node, operator, inputs)


@translates(LocalWindowAggregate)
def local_window_aggregate(
    translation: Translation, node: LocalWindowAggregate, inputs: Sequence[Transformation]
) -> Transformation:
    """Translate a LocalWindowAggregate: the columns of the key, then those that the global one reads."""
    received = translation.input(node)
    kept = [received.names[place] for place in _kept(node)]
    given = TableColumns(pyarrow.schema([received.schema.field(name) for name in kept]))
    translation.gives(node, given)
    paths = [(name,) for name in kept]
    operator = ScanOperator("LocalWindowAggregate", paths, received=received, given=given)
    return translation.operator(node, operator, inputs)


@translates(GlobalWindowAggregate)
def global_window_aggregate(
    translation: Translation, node: GlobalWindowAggregate, inputs: Sequence[Transformation]
) -> Transformation:
    """Translate a GlobalWindowAggregate, whose input comes from a LocalWindowAggregate."""
    local = _local_of(translation, node)
    (origin,) = translation.plan.inputs_of(local)
    received = translation.input(node)
    place_of = {place: index for index, place in enumerate(_kept(local))}
    calls = tuple(_moved(call, place_of) for call in local.agg_calls)
    types = tuple(origin.output_type.fields[place] for place in place_of)
    needs = tuple([local.need_retraction] * len(calls))
    operator = WindowAggregateOperator(
        "GlobalWindowAggregate",
        received.names[: len(local.grouping)],
        Calls(calls, types, needs),
        window_times(_moved_windowing(local.windowing, place_of), received, translation),
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
    if not window.is_time_window or kind not in ("TUMBLING", "SLIDING"):
        what = "windows of a number of rows" if not window.is_time_window else "SESSION windows"
        raise translation.unsupported(f"{what} can't be executed yet: use TUMBLE or HOP of time")
    size = milliseconds(str(window.size))
    slides = kind == "SLIDING"
    slices = WindowSlices(HOP if slides else TUMBLE, size, milliseconds(str(window.slide)) if slides else size)
    time = window.time_field
    place = time.field_index
    is_event_time = origin.output_type.field_time_attributes[place] != PROCTIME
    translation.check_zone(time.field_type.logical)
    operator = WindowAggregateOperator(
        "GroupWindowAggregate",
        [received.names[one] for one in node.grouping],
        _calls(node.agg_calls, origin, needs_retraction=node.need_retraction),
        WindowTimes(slices, received.names[place] if is_event_time else None, is_event_time),
        properties=_properties(node.named_window_properties),
        received=received,
        given=translation.columns(node),
    )
    return translation.operator(node, operator, inputs)


def _calls(calls: tuple[AggregateCall, ...], origin: ExecNode, *, needs_retraction: bool) -> Calls:
    return Calls(calls, origin.output_type.fields, (needs_retraction,) * len(calls))


def _properties(properties: Sequence[NamedWindowProperty]) -> list[str]:
    return [one.property.kind for one in properties]


def _kept(local: LocalWindowAggregate) -> list[int]:
    """Return the columns that a local aggregate sends: the key, arguments, and the time."""
    windowing = local.windowing
    times = []
    if isinstance(windowing, TimeAttributeWindowing) and windowing.is_rowtime:
        times = [windowing.time_attribute_index]
    elif isinstance(windowing, WindowAttachedWindowing):
        times = [windowing.window_end]
    read = sorted(Calls(local.agg_calls, (), ()).columns_read)
    return list(dict.fromkeys([*local.grouping, *read, *times]))


def _local_of(translation: Translation, node: GlobalWindowAggregate) -> LocalWindowAggregate:
    (origin,) = translation.plan.inputs_of(node)
    while not isinstance(origin, LocalWindowAggregate):
        (origin,) = translation.plan.inputs_of(origin)
    return origin


def _moved(call: AggregateCall, place_of: Mapping[int, int]) -> AggregateCall:
    filtered = call.filter_arg if call.filter_arg < 0 else place_of[call.filter_arg]
    arguments = tuple(place_of[argument] for argument in call.arg_list)
    return msgspec.structs.replace(call, arg_list=arguments, filter_arg=filtered)


def _moved_windowing(windowing: AnyWindowing, place_of: Mapping[int, int]) -> AnyWindowing:
    if isinstance(windowing, TimeAttributeWindowing):
        place = place_of.get(windowing.time_attribute_index, -1)
        return msgspec.structs.replace(windowing, time_attribute_index=place)
    assert isinstance(windowing, WindowAttachedWindowing)
    return msgspec.structs.replace(windowing, window_end=place_of[windowing.window_end])
