import asyncio
import importlib
import pickle
from collections.abc import Iterable
from typing import Any

import pytest

from penstock.common import Configuration, Duration
from penstock.common.configuration import options
from penstock.datastream import functions
from penstock.datastream.async_retry_strategies import NO_RETRY_STRATEGY
from penstock.datastream.checkpoint_config import CheckpointConfig
from penstock.datastream.checkpointing_mode import CheckpointingMode
from penstock.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from penstock.datastream.functions import (
    AsyncFunction,
    AsyncRetryStrategy,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    PassThroughWindowFunction,
    ProcessWindowFunction,
    SinkFunction,
)
from penstock.datastream.slot_sharing_group import MemorySize, SlotSharingGroup


class Doubled(MapFunction):  # type: ignore[type-arg]
    def map(self, value: Any) -> Any:
        return value * 2


class Typed(MapFunction[int, str]):
    def map(self, value: int) -> str:
        return str(value)


class Timed(KeyedProcessFunction):  # type: ignore[type-arg]
    def process_element(self, value: Any, ctx: "KeyedProcessFunction.Context") -> Iterable[Any]:
        yield value


class Slow(AsyncFunction[int, int]):
    async def async_invoke(self, value: int) -> list[int]:
        return [value]


def test_functions_with_and_without_type_arguments() -> None:
    """`class F(MapFunction)` of a PyFlink program would not run."""
    assert Doubled().map(2) == 4 and Typed().map(2) == "2" and pickle.loads(pickle.dumps(Doubled())).map(1) == 2
    assert Doubled().open(None) is None and Doubled().close() is None  # type: ignore[func-returns-value, arg-type]


def test_missing_methods_are_refused_at_once() -> None:
    """A function without its method would fail in a worker, with the first record."""
    for interface in (MapFunction, KeyedProcessFunction, ProcessWindowFunction, SinkFunction):
        with pytest.raises(TypeError, match="abstract"):
            interface()


def test_what_is_optional_has_a_default() -> None:
    """A process function without timers would have to write an empty on_timer."""
    assert Timed().on_timer(1, None) is None  # type: ignore[arg-type]
    assert list(PassThroughWindowFunction[int, str, str]().apply("k", "w", [1, 2])) == [1, 2]
    assert asyncio.run(Slow().async_invoke(3)) == [3]
    with pytest.raises(TimeoutError, match="3"):
        Slow().timeout(3)


def test_nested_contexts_are_where_pyflink_has_them() -> None:
    """Annotations such as 'KeyedProcessFunction.OnTimerContext' would not resolve."""
    assert issubclass(KeyedProcessFunction.OnTimerContext, KeyedProcessFunction.Context)
    assert issubclass(KeyedBroadcastProcessFunction.OnTimerContext, KeyedBroadcastProcessFunction.ReadOnlyContext)
    assert hasattr(ProcessWindowFunction.Context, "current_watermark")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("output_tag", "OutputTag"),
        ("execution_mode", "RuntimeExecutionMode"),
        ("checkpointing_mode", "CheckpointingMode"),
        ("externalized_checkpoint_retention", "ExternalizedCheckpointRetention"),
        ("time_domain", "TimeDomain"),
        ("timerservice", "TimerService"),
        ("state", "StateTtlConfig"),
        ("functions", "RuntimeContext"),
        ("functions", "KeyedStateStore"),
    ],
)
def test_names_are_found_at_pyflinks_paths(module: str, name: str) -> None:
    """A program whose imports were changed from pyflink to penstock would fail at its first line."""
    assert hasattr(importlib.import_module(f"penstock.datastream.{module}"), name)
    assert all(hasattr(functions, exported) for exported in functions.__all__)


def test_waits_grow_and_end() -> None:
    """Concurrent calls would lengthen each other's delays (PyFlink's strategy keeps the last one)."""
    strategy: AsyncRetryStrategy[int] = AsyncRetryStrategy.exponential_backoff(5, 100, 350, 2.0)
    assert [strategy.get_backoff_time_millis(attempt) for attempt in (1, 2, 3, 2, 10**6)] == [100, 200, 350, 200, 350]
    assert strategy.can_retry(5) and not strategy.can_retry(6)
    fixed: AsyncRetryStrategy[int] = AsyncRetryStrategy.fixed_delay(1, 7, lambda results: not results)
    predicate = fixed.get_retry_predicate().result_predicate()
    assert predicate is not None and predicate([]) and fixed.get_backoff_time_millis(9) == 7
    assert AsyncRetryStrategy.no_restart() is NO_RETRY_STRATEGY and not NO_RETRY_STRATEGY.can_retry(1)
    with pytest.raises(ValueError, match="max_attempts must be above 0"):
        AsyncRetryStrategy.fixed_delay(0, 7)


def test_checkpoint_config_is_a_view() -> None:
    """Settings made with env.get_checkpoint_config() would not reach the coordinator."""
    configuration = Configuration()
    config = CheckpointConfig(configuration)
    assert not config.is_checkpointing_enabled() and config.get_checkpoint_interval() == -1
    config.set_checkpoint_interval(Duration.of_seconds(10)).set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
    assert configuration.get(options.CHECKPOINT_INTERVAL) == 10_000 and config.is_checkpointing_enabled()
    assert configuration.get(options.CHECKPOINTING_MODE) is CheckpointingMode.AT_LEAST_ONCE
    assert config.is_externalized_checkpoints_enabled() and config.get_checkpoint_timeout() == 600_000
    assert config.set_fail_on_checkpointing_errors(False).get_tolerable_checkpoint_failure_number() == 2**31 - 1
    for call in (
        lambda: config.set_checkpoint_interval(9),
        lambda: config.set_max_concurrent_checkpoints(0),
        lambda: config.set_min_pause_between_checkpoints(-1),
    ):
        with pytest.raises(ValueError):
            call()


def test_slot_sharing_groups_hold_what_they_are_told() -> None:
    """Programs that request resources would not run."""
    group = SlotSharingGroup.builder("g").set_cpu_cores(1.5).set_task_heap_memory_mb(2).build()
    assert (group.get_name(), group.get_cpu_cores(), group.get_managed_memory()) == ("g", 1.5, None)
    assert group.get_task_heap_memory() == MemorySize(2 * 2**20) and hash(group) == hash(group)
    assert MemorySize.of_mebi_bytes(2048).get_gibi_bytes() == 2 and MemorySize(1) < MemorySize(2)
    with pytest.raises(ValueError):
        SlotSharingGroup.builder("")
