import pickle
from datetime import timedelta
from typing import Any

import pytest

from penstock.api.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.common import Time, Types
from penstock.datastream.functions import AggregateFunction, ReduceFunction


class Sum(ReduceFunction[int]):
    def reduce(self, value1: int, value2: int) -> int:
        return value1 + value2


class Count(AggregateFunction[Any, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Ufunc:
    """Like numpy.add: callable with two values, with a `reduce` of another meaning."""

    def __call__(self, left: int, right: int) -> int:
        return left + right

    def reduce(self, values: Any, axis: int = 0) -> int:
        raise AssertionError("not this one")


def add(left: int, right: int) -> int:
    return left + right


def test_types_are_optional() -> None:
    """State of an unusual type could not be stored."""
    pickled = Types.PICKLED_BYTE_ARRAY()
    assert ValueStateDescriptor("v").type_info == pickled
    assert ListStateDescriptor("l").type_info == Types.LIST(pickled)
    assert MapStateDescriptor("m", Types.STRING()).type_info == Types.MAP(Types.STRING(), pickled)


@pytest.mark.parametrize("function", [Sum(), add, Ufunc(), lambda left, right: left + right])
def test_reduce_takes_functions_and_objects(function: Any) -> None:
    """A lambda or a numpy function as reducer would fail, or reduce the wrong thing."""
    assert ReducingStateDescriptor("r", function).get_reduce_function().reduce(2, 3) == 5


def test_functions_of_the_wrong_kind_are_refused() -> None:
    """A class given in the place of an instance would fail with the first record."""
    for wrong in (Sum, 3, None):
        with pytest.raises(TypeError, match="ReduceFunction"):
            ReducingStateDescriptor("r", wrong)
    with pytest.raises(TypeError, match="pass an instance"):
        AggregatingStateDescriptor("a", Count)
    with pytest.raises(TypeError, match="lacks create_accumulator"):
        AggregatingStateDescriptor("a", Sum())
    assert AggregatingStateDescriptor("a", Count(), Types.LONG()).get_agg_function().merge(1, 2) == 3


def test_names_and_types_are_checked() -> None:
    """Two states without a name would overwrite each other."""
    for name in ("window/count", "(reduce)"):
        with pytest.raises(ValueError, match="internal states"):
            ValueStateDescriptor(name)
    with pytest.raises(ValueError, match="must not be empty"):
        ValueStateDescriptor("")
    with pytest.raises(TypeError, match=r"Types.LONG\(\)"):
        ValueStateDescriptor("v", int)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="StateTtlConfig"):
        ValueStateDescriptor("v").enable_time_to_live(5)  # type: ignore[arg-type]


def test_descriptors_reach_workers_with_their_ttl() -> None:
    """State would never expire in workers."""
    ttl = (
        StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_read_and_write().cleanup_incrementally(7, True).build()
    )
    descriptor = ReducingStateDescriptor("r", add, Types.LONG())
    descriptor.enable_time_to_live(ttl)
    there = pickle.loads(pickle.dumps(descriptor))
    assert there.ttl_config.get_ttl() == Time.hours(1) and there.get_reduce_function().reduce(1, 1) == 2
    assert there.ttl_config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
    incremental = there.ttl_config.get_cleanup_strategies().get_incremental_cleanup_strategy()
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (7, True)


def test_ttl_defaults_are_flinks() -> None:
    """Expired values would be seen, or never be removed."""
    config = StateTtlConfig.new_builder(timedelta(seconds=5)).build()
    strategies = config.get_cleanup_strategies()
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired and config.is_enabled()
    assert strategies.is_cleanup_in_background() and not strategies.in_full_snapshot()
    assert strategies.get_rocksdb_compact_filter_cleanup_strategy() is not None
    bare = StateTtlConfig.new_builder(5).disable_cleanup_in_background().cleanup_full_snapshot().build()
    assert bare.get_cleanup_strategies().get_incremental_cleanup_strategy() is None
    assert bare.get_cleanup_strategies().in_full_snapshot()
    with pytest.raises(ValueError, match="more than 0 ms"):
        StateTtlConfig.new_builder(0).build()


def test_a_disabled_ttl_is_none() -> None:
    """State would expire although the program switched that off."""
    descriptor = ValueStateDescriptor("v")
    descriptor.enable_time_to_live(
        StateTtlConfig.new_builder(5).set_update_type(StateTtlConfig.UpdateType.Disabled).build()
    )
    assert descriptor.ttl_config is None
