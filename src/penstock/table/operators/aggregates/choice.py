"""The aggregate that a call of a plan asks for."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow

from penstock.table.functions.arrow_types import arrow_type
from penstock.table.logical_types import INTEGER_NUMERIC, LogicalType
from penstock.table.operators.aggregates.base import Aggregate
from penstock.table.operators.aggregates.decimals import DecimalSum
from penstock.table.operators.aggregates.distinct import Distinct, DistinctValues
from penstock.table.operators.aggregates.extremes import extreme_of
from penstock.table.operators.aggregates.numbers import Count, Sum, average_of, sum0_of, sum_of
from penstock.table.operators.aggregates.objects import Collect, KeptValue, ListedValues, SingleValue, SquaredDeviations
from penstock.table.operators.aggregates.retracted_extremes import RetractedExtreme
from penstock.table.planner.errors import UnsupportedPlanError
from penstock.table.planner.nodes.aggregate_nodes import AggregateCall

_FINISH = {"SUM": sum_of, "$SUM0": sum0_of, "AVG": average_of}


def aggregates_of(
    calls: Sequence[AggregateCall], inputs: Sequence[LogicalType], need_retractions: Sequence[bool]
) -> list[Aggregate]:
    """Return the aggregates of calls. DISTINCT of the same arguments is counted together.

    Raises UnsupportedPlanError, which names the function.
    """
    sharing: dict[tuple[int, ...], int] = {}
    for call in calls:
        if call.distinct:
            sharing[call.arg_list] = sharing.get(call.arg_list, 0) + 1
    values = {
        arguments: DistinctValues([arrow_type(inputs[place]) for place in arguments], count)
        for arguments, count in sharing.items()
    }
    numbers = dict.fromkeys(values, 0)
    found: list[Aggregate] = []
    for call, needs_retraction in zip(calls, need_retractions, strict=True):
        one = aggregate_of(call, inputs, needs_retraction)
        if call.distinct:
            one = Distinct(one, values[call.arg_list], numbers[call.arg_list])
            numbers[call.arg_list] += 1
        found.append(one)
    return found


def aggregate_of(call: AggregateCall, inputs: Sequence[LogicalType], needs_retraction: bool) -> Aggregate:
    """Return the aggregate of a call, without its DISTINCT. Raises UnsupportedPlanError, which names the function."""
    if call.approximate:
        raise UnsupportedPlanError(f"an approximate {call.function} is not supported: write it without APPROX")
    types = [inputs[place] for place in call.arg_list]
    name, result = call.function.removeprefix("$") if call.function != "$SUM0" else "$SUM0", call.type.logical
    name = "$SUM0" if name == "SUM0" else name
    if name == "COUNT":
        return Count()
    kind = arrow_type(result)
    if name in _FINISH:
        return _sum(name, types[0], kind)
    if name in ("MIN", "MAX"):
        is_max = name == "MAX"
        return RetractedExtreme(kind, is_max=is_max) if needs_retraction else extreme_of(kind, is_max=is_max)
    if name in ("FIRST_VALUE", "LAST_VALUE") and not needs_retraction:
        return KeptValue(kind, is_first=name == "FIRST_VALUE")
    if name in ("FIRST_VALUE", "LAST_VALUE", "LISTAGG"):
        return ListedValues(kind, name)
    if name.startswith("WELFORD_M2"):
        return SquaredDeviations(kind)
    if name == "COLLECT":
        return Collect(kind)
    if name == "SINGLE_VALUE":
        return SingleValue(kind)
    raise UnsupportedPlanError(f"the aggregate function {name} is not supported. Write the query without it")


def _sum(name: str, argument: LogicalType, kind: pyarrow.DataType) -> Aggregate:
    if argument.root == "DECIMAL":
        return DecimalSum(arrow_type(argument), kind, name)
    if argument.root in INTEGER_NUMERIC:
        return Sum(kind, pyarrow.int64(), _FINISH[name])
    if argument.root in ("FLOAT", "DOUBLE"):
        adds_singles = argument.root == "FLOAT" and name != "AVG"
        return Sum(kind, pyarrow.float32() if adds_singles else pyarrow.float64(), _FINISH[name])
    raise UnsupportedPlanError(f"{name} of {argument} is not supported: cast the argument")
