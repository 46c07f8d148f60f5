"""A keyed task of a batched job: one key after the other, by time, in bounded memory."""

from __future__ import annotations

import pytest
from tests.unit.engine.runtime.hosted_task import Host, mapping

from penstock.api.state.descriptors import ValueStateDescriptor
from penstock.common import Types
from penstock.datastream.functions import KeyedProcessFunction
from penstock.engine.runtime.network.partitioners import HashPartitioner
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.process import KeyedProcessOperator
from penstock.engine.runtime.operators.reduce import ReduceOperator
from penstock.engine.runtime.task.events import Cancel, DataEnded, InputEnded
from penstock.engine.runtime.task.task import TaskState

COUNT = ValueStateDescriptor("count", Types.INT())


class Journey(KeyedProcessFunction):
    """Emits each call with what is in the state of all keys; each record sets two timers."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(value[1] + 100)
        ctx.timer_service().register_processing_time_timer(5)
        yield *value, self.count.value(), ctx.timestamp()

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), ctx.time_domain().name, timestamp, self.count.value()


def journey(**settings) -> Host:
    """A keyed process function, which is told `one key after the other`."""

    def first(value):
        return value[0]

    operator = KeyedProcessOperator("journey", first, UserFunction(Journey(), "process_element"))
    return Host(operator, batched=True, partitioner=HashPartitioner(first), **settings)


@pytest.mark.parametrize("memory_bytes", [0, 100, 1 << 20])
def test_a_batched_task_is_given_one_key_after_the_other_by_time(memory_bytes: int) -> None:
    """State and timers of all keys would be in memory, and functions that rely on the order of time would fail."""
    host = journey(sorted_inputs_bytes=memory_bytes)
    host.sends(0, ([("b", 30), ("a", 20)], [30, 20]), group=3)
    host.sends(1, ([("a", 10), ("b", 10), ("a", 30)], [10, 10, 30]), group=3)
    assert host.flushed() == [], "there may be more"
    host.sends(0, [("c", 7)], group=4).works()
    host.handle(InputEnded()).works()
    assert host.left() == [
        ("a", 10, 1, 10), ("a", 20, 2, 20), ("a", 30, 3, 30),
        ("a", "EVENT_TIME", 110, 3), ("a", "EVENT_TIME", 120, 3), ("a", "EVENT_TIME", 130, 3),
        ("a", "PROCESSING_TIME", 5, 3),
        ("b", 10, 1, 10), ("b", 30, 2, 30),
        ("b", "EVENT_TIME", 110, 2), ("b", "EVENT_TIME", 130, 2), ("b", "PROCESSING_TIME", 5, 2),
        ("c", 7, 1, None), ("c", "EVENT_TIME", 107, 1), ("c", "PROCESSING_TIME", 5, 1),
    ]  # fmt: skip
    assert host.task.state is TaskState.DATA_ENDED
    assert host.asks() == [DataEnded(1, 0)]
    assert all(spill.is_closed for spill in host.spilled)
    assert bool(host.spilled) is (memory_bytes < 1000)


def test_a_batched_task_holds_the_state_of_one_key() -> None:
    """Memory would grow with the number of keys."""
    host = journey(sorted_inputs_bytes=1000)
    # A step ends after one call, or two.
    host.tick_ns = 1_500_000
    keys = [f"key {n:04}" for n in range(500)]
    for key in keys:
        host.sends(0, ([(key, 1)] * 3, [1, 2, 3]), group=3)
    host.handle(InputEnded())
    backend = host.task.chain.head.backend
    most = steps = 0
    while host.slot.step():
        most = max(most, sum(len(list(table.items())) for table in (backend.tables["count"],)))
        steps += 1
    assert most == 1
    assert steps > len(keys)
    assert [value[0] for value in host.left() if value[1] == "PROCESSING_TIME"] == keys


def test_a_batched_task_that_is_cancelled_frees_its_disk() -> None:
    """Sorted runs of cancelled jobs would fill the disk for as long as the worker lives."""
    host = journey(sorted_inputs_bytes=0)
    host.sends(0, [("a", 1), ("b", 2)], group=3).works()
    assert [spill.is_closed for spill in host.spilled] == [False]
    host.handle(Cancel())
    assert [spill.is_closed for spill in host.spilled] == [True]


def test_results_of_many_keys_leave_a_batched_operator_as_chunks() -> None:
    """Each operator behind a keyed one would pay for a chunk per key."""
    chunks: list[int] = []
    counted = mapping(name="counted")
    process = counted.process

    def counting(chunk):
        chunks.append(len(chunk))
        return process(chunk)

    counted.process = counting
    reduce = ReduceOperator("reduce", lambda v: v[0], UserFunction(lambda a, b: (a[0], a[1] + b[1]), "reduce"))
    host = Host(reduce, counted, batched=True, partitioner=HashPartitioner(lambda v: v[0]))
    host.sends(0, [(n % 700, 1) for n in range(2100)], group=3).handle(InputEnded()).works()
    assert chunks == [700]
    assert sorted(host.left()) == [(n, 3) for n in range(700)]
