"""Broadcast streams and broadcast state: who may read and write, what a snapshot holds, all keys at once."""

from __future__ import annotations

import pytest

from penstock.common import Types
from penstock.common.errors import UserFunctionError
from penstock.datastream import (
    BroadcastProcessFunction,
    BroadcastStream,
    KeyedBroadcastProcessFunction,
    OutputTag,
    StreamExecutionEnvironment,
)
from penstock.datastream.functions import KeyedStateFunction
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.operators.broadcast import KeyedBroadcastProcessOperator
from penstock.engine.state.backends.rocksdb.backend import Stores
from penstock.hosts.simulator.stores import MemoryStore
from penstock.testing import Timer, TwoInputHarness

RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())
NAMES = MapStateDescriptor("names", Types.STRING(), Types.STRING())
UNKNOWN = MapStateDescriptor("unknown", Types.STRING(), Types.STRING())
SEEN = ValueStateDescriptor("seen", Types.INT())
WRONG = OutputTag("wrong")


class Priced(BroadcastProcessFunction):
    """Prices come by broadcast, orders in the other stream."""

    def process_element(self, value, ctx):
        price = ctx.get_broadcast_state(RULES).get(value)
        if price is None:
            yield WRONG, value
        else:
            yield value, price, ctx.timestamp(), ctx.current_watermark(), ctx.current_processing_time()

    def process_broadcast_element(self, value, ctx):
        name, price = value
        state = ctx.get_broadcast_state(RULES)
        if price is None:
            del state[name]
        else:
            state[name] = price
        yield "now", sorted(state.items()), ctx.timestamp(), ctx.current_processing_time()


class Watching(KeyedBroadcastProcessFunction):
    """Counts records by key; a rule sets a limit, or resets all counts."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(SEEN)

    def process_element(self, value, ctx):
        self.seen.update((self.seen.value() or 0) + 1)
        limit = ctx.get_broadcast_state(RULES).get("limit")
        if limit is not None and self.seen.value() > limit:
            yield "over", ctx.get_current_key(), self.seen.value()
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)

    def process_broadcast_element(self, value, ctx):
        name, limit = value
        ctx.get_broadcast_state(RULES).put(name, limit)
        if name == "reset":
            was = []
            ctx.apply_to_keyed_state(SEEN, lambda key, state: was.append((key, state.value())))
            ctx.apply_to_keyed_state(SEEN, Reset())
            yield "was", sorted(was)

    def on_timer(self, timestamp, ctx):
        yield ctx.time_domain().name, ctx.get_current_key(), [*ctx.get_broadcast_state(RULES)], ctx.current_watermark()


class Reset(KeyedStateFunction):
    def process(self, key, state):
        if key == "b":
            state.clear()
        else:
            state.update(0)


def broadcast(function, *descriptors):
    return lambda first, second: first.connect(second.broadcast(*(descriptors or (RULES,)))).process(function)


def keyed(function, *descriptors):
    return lambda first, second: (
        first.key_by(lambda value: value).connect(second.broadcast(*(descriptors or (RULES,)))).process(function)
    )


def test_one_side_writes_what_the_other_reads() -> None:
    """Rules that change would not reach the stream that they are for."""
    with TwoInputHarness(broadcast(Priced()), now_ms=77) as harness:
        harness.push1("tea")
        harness.push2(("tea", 3), timestamp=5)
        harness.push1("tea", timestamp=6)
        harness.watermark(4)
        harness.push2(("jam", 4))
        harness.push2(("tea", None))
        harness.push1("jam")
        harness.push1("tea")
        assert harness.outputs() == [
            ("now", [("tea", 3)], 5, 77),
            ("tea", 3, 6, -(2**63), 77),
            ("now", [("jam", 4), ("tea", 3)], None, 77),
            ("now", [("jam", 4)], None, 77),
            ("jam", 4, None, 4, 77),
        ]
        assert harness.side_outputs(WRONG) == ["tea", "tea"]


def test_with_keys_there_are_state_and_timers_too() -> None:
    """Counts by key against limits that change would need two operators."""
    with TwoInputHarness(keyed(Watching())) as harness:
        for _ in range(2):
            harness.push1("a", timestamp=1)
        harness.push2(("limit", 1))
        harness.push1("b", timestamp=2)
        harness.push1("a", timestamp=3)
        assert harness.outputs() == [("over", "a", 3)]
        assert harness.timers() == [Timer(13, "a")]
        harness.watermark(20)
        assert harness.outputs()[1:] == [("EVENT_TIME", "a", ["limit"], 20)]


def test_a_broadcast_record_reaches_the_state_of_all_keys() -> None:
    """A rule that resets counts would do so only for keys that come again."""
    with TwoInputHarness(keyed(Watching())) as harness:
        for key in "aabbbc":
            harness.push1(key, timestamp=1)
        harness.push2(("reset", 0))
        assert harness.outputs() == [("was", [("a", 2), ("b", 3), ("c", 1)])]
        assert [harness.state(SEEN, key) for key in "abc"] == [0, None, 0]
        harness.push1("a", timestamp=2)
        assert harness.state(SEEN, "a") == 1


def test_a_broadcast_record_reaches_state_in_a_store(rig) -> None:
    """With state in RocksDB, a rule would reach only keys that have come of late."""
    operator = operator_of(Watching())
    one = rig(operator, stores=Stores(MemoryStore, cached_entries=0))
    for key in "aab":
        one.process(key, at=[1])
        while operator.wake_at_ms() is not None:
            one.clock(one.now_ms + 1)
    one.do(lambda: operator.inputs()[1].process(Rows([("reset", 0)])))
    one.do(lambda: operator.inputs()[1].process(Rows([("reset", 0)])))
    assert one.log == [(("was", [("a", 2), ("b", 1)]), None), (("was", [("a", 0)]), None)]


class WithoutKey(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(SEEN)
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.INT()))

    def process_element(self, value, ctx):
        self.seen.update(1)

    def process_broadcast_element(self, value, ctx):
        self.seen.update(2) if value == "update" else self.all.add(1) if value == "add" else self.seen.value()


@pytest.mark.parametrize("access", ["update", "add", "value"])
def test_a_broadcast_record_has_no_key(access: str) -> None:
    """What a function stores would silently belong to whatever key came last, another one after each restart."""
    harness = TwoInputHarness(keyed(WithoutKey()))
    harness.push1("a")
    with pytest.raises(UserFunctionError, match=rf"value '{access}'\n(.|\n)*no current key.*apply_to_keyed_state"):
        harness.push2(access)
    assert harness.state(SEEN, "a") == 1


class Meddling(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        state = ctx.get_broadcast_state(value)
        yield [*state.items()], [*state], [*state.values()], state.is_empty(), "x" in state, state["x"]
        state.clear()

    def process_broadcast_element(self, value, ctx):
        return None


def test_the_other_side_can_not_write() -> None:
    """Subtasks would come to have different rules, since each gets other records."""
    harness = TwoInputHarness(broadcast(Meddling()))
    with pytest.raises(UserFunctionError, match="can only be changed in process_broadcast_element"):
        harness.push1(RULES)
    assert harness.outputs() == [([], [], [], True, False, None)]


def test_states_are_those_that_were_given_to_broadcast() -> None:
    """A misspelt name would be an empty state, and every record would pass."""
    harness = TwoInputHarness(broadcast(Meddling(), RULES, NAMES))
    with pytest.raises(UserFunctionError, match=r"no broadcast state 'unknown', only 'rules', 'names': pass"):
        harness.push1(UNKNOWN)


class Filling(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield ctx.get_broadcast_state(RULES).get(value), ctx.get_broadcast_state(NAMES).get(value)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(value, len(value))
        ctx.get_broadcast_state(NAMES).put(value, value.upper())


class Idle(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        return None

    def process_broadcast_element(self, value, ctx):
        return None


def operator_of(function) -> KeyedBroadcastProcessOperator:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = keyed(function, RULES, NAMES)(env.from_collection(["a"]), env.from_collection(["b"]))
    operator = stream._transformation.operator
    assert isinstance(operator, KeyedBroadcastProcessOperator)
    return operator


def snapshot_of(operator) -> dict[str, list]:
    return {one.name: one.items for one in operator.lists()}


def test_snapshots_hold_all_broadcast_states_even_those_that_nobody_asks_for(rig) -> None:
    """After a restart, and a checkpoint before the next rule, all rules would be gone."""
    first = rig(operator_of(Filling()))
    first.operator.inputs()[1].process(Rows(["tea", "jam"]))
    assert snapshot_of(first.operator) == {"rules": [("tea", 3), ("jam", 3)], "names": [("tea", "TEA"), ("jam", "JAM")]}

    taken = first.operator.lists()
    idle = operator_of(Idle())
    idle_rig = rig(idle, restored=taken)
    assert idle_rig.operator.lists() == taken

    again = rig(operator_of(Filling()), restored=taken)
    assert again.process("tea", "soap") == [((3, "TEA"), None), ((None, None), None)]


def test_a_snapshot_is_not_changed_by_later_rules(rig) -> None:
    """A checkpoint would hold rules from after its barrier, and a restart would judge earlier records by them."""
    one = rig(operator_of(Filling()))
    one.operator.inputs()[1].process(Rows(["tea"]))
    taken = snapshot_of(one.operator)
    one.operator.inputs()[1].process(Rows(["jam"]))
    assert taken["rules"] == [("tea", 3)]


class Exploding(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        for n in range(4):
            yield ctx.get_current_key(), n, [*ctx.get_broadcast_state(RULES)]

    def process_broadcast_element(self, value, ctx):
        for n in range(4):
            ctx.get_broadcast_state(RULES).put(f"{value}{n}", n)
            yield value, n


def test_generators_of_both_sides_pause(rig) -> None:
    """A rule that yields a million results would delay every checkpoint, or lose the rest of them."""
    one = rig(operator_of(Exploding()), patient=False, chunk_records=2)
    operator = one.operator
    operator.inputs()[1].process(Rows(["x"]))
    while operator.paused:
        one.budget.begin_step()
        operator.resume()
    assert one.process("k") == [(("k", n, ["x0", "x1", "x2", "x3"]), None) for n in range(4)]
    assert one.log[:4] == [(("x", n), None) for n in range(4)]
    assert all(size <= 2 for size in one.chunks)


def test_what_does_not_fit_is_refused() -> None:
    """A mistake in the program would be found by a worker, in the middle of the job."""
    env = StreamExecutionEnvironment.get_execution_environment()
    stream, rules = env.from_collection(["a"]), env.from_collection(["b"])
    assert isinstance(rules.broadcast(RULES), BroadcastStream)
    with pytest.raises(TypeError, match="expected a MapStateDescriptor for broadcast, got ValueStateDescriptor"):
        rules.broadcast(SEEN)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r"different names, got \['rules', 'rules'\]"):
        rules.broadcast(RULES, RULES)
    with pytest.raises(TypeError, match="has no key, so process needs a BroadcastProcessFunction; Watching is a Keyed"):
        stream.connect(rules.broadcast(RULES)).process(Watching())
    with pytest.raises(TypeError, match="has a key, so process needs a KeyedBroadcastProcessFunction; Priced is a"):
        stream.key_by(str).connect(rules.broadcast(RULES)).process(Priced())
    with pytest.raises(TypeError, match="which lacks process_element and process_broadcast_element"):
        stream.connect(rules.broadcast(RULES)).process(len)  # type: ignore[arg-type]
