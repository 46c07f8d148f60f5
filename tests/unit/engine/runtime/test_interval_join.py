"""The interval join: which pairs are found, which records are late, what is kept, and for how long."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common import Time, Types
from penstock.common.errors import ProgramError, UserFunctionError
from penstock.datastream import OutputTag, ProcessJoinFunction, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor
from penstock.engine.runtime.chunks import Rows
from penstock.engine.state.backends.rocksdb.backend import Stores
from penstock.hosts.simulator.stores import MemoryStore
from penstock.testing import TwoInputHarness

LEFT_LATE, RIGHT_LATE = OutputTag("left late"), OutputTag("right late")


class Pairs(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left, right, ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp()


def same_key(value):
    return 0


def joined(
    lower: int, upper: int, function: Any = None, key: Any = same_key, late: bool = False, exclusive: Any = ()
) -> TwoInputHarness:
    """A harness; `exclusive`: lower, upper."""

    def program(left, right):
        join = left.key_by(key).interval_join(right.key_by(key)).between(lower, Time.milliseconds(upper))
        for bound in exclusive:
            join = getattr(join, f"{bound}_bound_exclusive")()
        if late:
            join = join.side_output_left_late_data(LEFT_LATE).side_output_right_late_data(RIGHT_LATE)
        return join.process(function or (lambda left, right, ctx: [(left, right)]))

    return TwoInputHarness(program)


def kept(harness: TwoInputHarness) -> int:
    """How many records are in state."""
    tables = harness.operator.keyed_tables()
    return sum(len(bucket) for name in tables if "join" in name for _, bucket in tables[name].items())


def test_pairs_are_within_the_bounds_whoever_comes_first() -> None:
    """Orders and their payments would not be found together, or with those of other times."""
    with joined(-2, 1) as harness:
        for time in range(10):
            harness.push1(f"l{time}", timestamp=time)
        for time in (5, 0):
            harness.push2(f"r{time}", timestamp=time)
        harness.push1("x6", timestamp=6)
        assert harness.outputs() == [
            ("l4", "r5"), ("l5", "r5"), ("l6", "r5"), ("l7", "r5"),
            ("l0", "r0"), ("l1", "r0"), ("l2", "r0"),
            ("x6", "r5"),
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("exclusive", "expected"),
    [((), [8, 9, 10, 11]), (("lower",), [9, 10, 11]), (("upper",), [8, 9, 10]), (("lower", "upper"), [9, 10])],
)
def test_bounds_may_be_exclusive(exclusive: tuple[str, ...], expected: list[int]) -> None:
    """A pair exactly at a bound would be found, or not, against what the program says."""
    with joined(-2, 1, exclusive=exclusive) as harness:
        for time in range(20):
            harness.push2(time, timestamp=time)
        harness.push1("l", timestamp=10)
        assert [right for _, right in harness.outputs()] == expected


def test_results_have_the_later_time_and_functions_see_both() -> None:
    """A window after the join would count pairs before both records are there."""
    with joined(-5, 5, Pairs()) as harness:
        harness.push1("l", timestamp=7)
        harness.push2("r", timestamp=3)
        harness.push2("s", timestamp=9)
        assert harness.outputs_with_timestamps() == [(("l", "r", 7, 3, 7), 7), (("l", "s", 7, 9, 9), 9)]


def test_keys_are_joined_with_themselves_only() -> None:
    """Records of different customers would be paired."""
    with joined(0, 10, key=lambda value: value[0]) as harness:
        harness.push1("a1", timestamp=1)
        harness.push1("b1", timestamp=1)
        harness.push2("b2", timestamp=2)
        assert harness.outputs() == [("b1", "b2")]


def test_late_records_are_in_no_pair() -> None:
    """A late record would be paired with those that are still kept, and with others after a restart."""
    with joined(-5, 5, late=True) as harness:
        harness.push1("l", timestamp=10)
        harness.watermark(10)
        harness.push2("late", timestamp=9)
        harness.push1("also late", timestamp=9)
        harness.push2("in time", timestamp=10)
        assert harness.outputs() == [("l", "in time")]
        assert harness.side_outputs(RIGHT_LATE) == ["late"]
        assert harness.side_outputs(LEFT_LATE) == ["also late"]
        assert harness.counters.late_records_dropped == 0
    with joined(-5, 5) as harness:
        harness.watermark(10)
        harness.push1("late", timestamp=9)
        assert harness.counters.late_records_dropped == 1


@pytest.mark.parametrize(("lower", "upper"), [(0, 0), (-5, 0), (0, 5), (-5, 5)])
@pytest.mark.parametrize("left_first", [True, False])
def test_records_at_the_watermark_are_in_time_and_meet_each_other(lower: int, upper: int, left_first: bool) -> None:
    """A pair of which neither record is late would be missing, without a trace in a side output or a counter."""
    with joined(lower, upper) as harness:
        harness.watermark(10)
        pushes = [(harness.push1, "l"), (harness.push2, "r")]
        for push, value in pushes if left_first else reversed(pushes):
            push(value, timestamp=10)
        assert harness.outputs() == [("l", "r")]
        assert harness.counters.late_records_dropped == 0
        harness.watermark(10 + 2 * (upper - lower + 1) + 5)
        assert kept(harness) == 0


@pytest.mark.parametrize(("lower", "upper", "left_kept", "right_kept"), [(-3, 5, 5, 3), (2, 5, 5, 0), (-5, -2, 0, 5)])
def test_records_are_kept_for_as_long_as_a_partner_may_come(
    lower: int, upper: int, left_kept: int, right_kept: int
) -> None:
    """State would grow without bound, or pairs would be missing."""
    width = 2 * (upper - lower + 1)
    with joined(lower, upper) as harness:
        harness.push1("l", timestamp=1_000)
        harness.push2("r", timestamp=1_000)
        assert kept(harness) == 2
        harness.watermark(999 + min(left_kept, right_kept))
        assert kept(harness) == 2
        harness.watermark(1_000 + max(left_kept, right_kept) + width)
        assert kept(harness) == 0
        assert harness.timers() == []


def test_a_partner_whose_time_is_over_is_none_even_if_it_is_still_kept() -> None:
    """Which pairs are found would depend on how wide the buckets are."""
    with joined(0, 100) as harness:
        harness.push1("l", timestamp=505)
        harness.watermark(605)
        assert kept(harness) == 1
        harness.push2("r", timestamp=605)
        assert harness.outputs() == []


RECORDS = st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.integers(-30, 30)), max_size=40)


@settings(max_examples=150)
@given(records=RECORDS, lower=st.integers(-15, 15), width=st.integers(0, 15), step=st.integers(0, 4))
def test_any_streams_give_what_a_nested_loop_gives(records: Any, lower: int, width: int, step: int) -> None:
    """Some pairs would be missing, or found twice, where two buckets meet."""
    upper = lower + width
    numbered = [(is_left, (key, n), time) for n, (is_left, key, time) in enumerate(records)]
    numbered.sort(key=lambda record: record[2])
    with joined(lower, upper, key=lambda value: value[0]) as harness:
        for is_left, value, time in numbered:
            (harness.push1 if is_left else harness.push2)(value, timestamp=time)
            if step:
                harness.watermark(time - step)
        expected = Counter(
            (left, right)
            for is_left, left, left_time in numbered
            for is_other, right, right_time in numbered
            if is_left and not is_other and left[0] == right[0] and lower <= right_time - left_time <= upper
        )
        assert Counter(harness.outputs()) == expected
        harness.finish()
        assert kept(harness) == 0


class Counting(ProcessJoinFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, left, right, ctx):
        self.count.update((self.count.value() or 0) + 1)
        left.append("changed")
        yield left, right, self.count.value()


def test_a_function_has_keyed_state_and_can_not_change_what_is_kept() -> None:
    """What a function appends to a record would be in all its later pairs, after a restart in some of them."""
    with joined(0, 10, Counting(), key=len) as harness:
        harness.push1(["l"], timestamp=1)
        harness.push2(["r"], timestamp=2)
        harness.push2(["s"], timestamp=3)
        assert harness.outputs() == [(["l", "changed"], ["r"], 1), (["l", "changed"], ["s"], 2)]


def test_many_results_of_a_pair_come_in_chunks(rig) -> None:
    """A pair with a million results would delay every checkpoint, or lose the rest of them."""
    env = StreamExecutionEnvironment.get_execution_environment()
    left, right = (env.from_collection([1]).key_by(same_key) for _ in range(2))
    stream = left.interval_join(right).between(0, 10).process(lambda a, b, ctx: ((a, b, n) for n in range(5)))
    one = rig(stream._transformation.operator, patient=False, chunk_records=2)
    one.process("l", "m", at=[1, 2])
    found = one.do(lambda: one.operator.inputs()[1].process(Rows(["r"], [3])))
    assert found == [((left, "r", n), 3) for left in "lm" for n in range(5)]
    assert all(size <= 2 for size in one.chunks) and one.pauses


def test_records_that_were_spilled_to_a_store_are_partners_still(rig) -> None:
    """With state in RocksDB, a bucket would lose its records when another one comes, or is looked up."""
    env = StreamExecutionEnvironment.get_execution_environment()
    left, right = (env.from_collection([1]).key_by(same_key) for _ in range(2))
    stream = left.interval_join(right).between(0, 10).process(lambda a, b, ctx: [(a, b)])
    one = rig(stream._transformation.operator, stores=Stores(MemoryStore, cached_entries=0))
    for value, time in (("l1", 1), ("l2", 2), ("l50", 50)):
        one.process(value, at=[time])
        while one.operator.wake_at_ms() is not None:
            one.clock(one.now_ms + 1)
    one.do(lambda: one.operator.inputs()[1].process(Rows(["r"], [3])))
    assert one.log == [(("l1", "r"), 3), (("l2", "r"), 3)]
    one.until(1_000)
    assert not any(table for name, table in one.operator.keyed_tables().items() if "join" in name)


def test_pairs_are_found_although_a_checkpoint_ends_while_the_join_is_paused(rig) -> None:
    """Pairs would be missing whenever the next operator is slow and a checkpoint has just been written."""
    env = StreamExecutionEnvironment.get_execution_environment()
    left, right = (env.from_collection([(1, "")]).key_by(lambda value: value[0]) for _ in range(2))
    stream = left.interval_join(right).between(-10, 10).process(lambda a, b, ctx: [(a, b)])
    one = rig(stream._transformation.operator, patient=False, chunk_records=1)
    operator = one.operator
    tables = [table for name, table in operator.keyed_tables().items() if "join" in name]

    def checkpointed() -> None:
        for frozen in [table.freeze(False) for table in tables]:
            frozen.release()
        while operator.compact():
            pass

    # Compacted, then freed: what follows is in a frozen layer above nothing.
    one.process((0, "old"), at=[0])
    checkpointed()
    one.until(1_000)
    checkpointed()
    one.log.clear()
    for key in range(3):
        one.process((key, "l"), at=[2_000])
    under_way = [table.freeze(False) for table in tables]
    one.budget.begin_step()
    assert not operator.inputs()[1].process(Rows([(key, "r") for key in range(3)], [2_001] * 3))
    for frozen in under_way:
        frozen.release()
    while operator.compact():
        pass
    while operator.paused:
        one.budget.begin_step()
        operator.resume()
    assert one.log == [(((key, "l"), (key, "r")), 2_001) for key in range(3)]


def restored(rig, bounds: tuple[int, int], others: tuple[int, int], stores: Stores | None = None) -> Any:
    """A join whose state is that of one with other bounds, which has had a record of each side."""
    env = StreamExecutionEnvironment.get_execution_environment()

    def join(lower: int, upper: int) -> Any:
        left, right = (env.from_collection([1]).key_by(same_key) for _ in range(2))
        return left.interval_join(right).between(lower, upper).process(lambda a, b, ctx: [(a, b)])

    one = rig(join(*others)._transformation.operator)
    one.process("l", at=[1_000_000])
    one.do(lambda: one.operator.inputs()[1].process(Rows(["r"], [1_000_000])))
    operator = join(*bounds)._transformation.operator
    setup = operator.setup

    def setup_and_restore(context: Any, output: Any) -> None:
        setup(context, output)
        for name, table in one.operator.keyed_tables().items():
            entries = dict(table.items()) if "timers" not in name else {(k, t, n): True for t, k, n in table}
            if entries:
                operator.keyed_tables()[name].restore(list(entries), list(entries.values()))

    operator.setup = setup_and_restore
    return rig(operator, stores=stores)


@pytest.mark.parametrize("bounds", [(0, 20), (5, 15), (-10, 0), (1, 9)])
def test_records_that_were_kept_for_other_bounds_are_refused(rig, bounds: tuple[int, int]) -> None:
    """After a change of the program a job would go on from its savepoint, and find a part of the pairs."""
    with pytest.raises(ProgramError, match=rf"stored for other bounds than {bounds[0]} to {bounds[1]} ms"):
        restored(rig, bounds, (0, 10))


@pytest.mark.parametrize("stores", [None, Stores(MemoryStore, cached_entries=0)])
def test_records_that_were_kept_for_the_same_bounds_are_partners(rig, stores: Stores | None) -> None:
    """No job with an interval join could be restarted, or its state would never be freed."""
    one = restored(rig, (0, 10), (0, 10), stores)
    one.do(lambda: one.operator.inputs()[1].process(Rows(["s"], [1_000_005])))
    assert one.log == [(("l", "s"), 1_000_005)]
    one.until(2_000_000)
    assert not any(table for name, table in one.operator.keyed_tables().items() if "join" in name)


def test_batched_all_of_a_key_group_is_joined_and_then_gone(rig) -> None:
    """A batched join would lose what does not come in the order of time, or keep all key groups."""
    env = StreamExecutionEnvironment.get_execution_environment()
    left, right = (env.from_collection([1]).key_by(same_key) for _ in range(2))
    stream = left.interval_join(right).between(0, 10).process(lambda a, b, ctx: [(a, b)])
    one = rig(stream._transformation.operator, batched=True)
    one.process("l1", "l9", at=[1, 900])
    one.do(lambda: one.operator.inputs()[1].process(Rows(["r9", "r1"], [901, 2])))
    one.do(one.operator.end_key)
    assert one.log == [(("l9", "r9"), 901), (("l1", "r1"), 2)]
    assert not any(one.operator.keyed_tables().values())


def test_a_failure_names_the_pair() -> None:
    """A user would not know which two records do not fit."""
    harness = joined(0, 10, lambda left, right, ctx: [left / right])
    harness.push1(1, timestamp=1)
    with pytest.raises(UserFunctionError, match=r"'Interval Join', subtask 1 of 1, in .*\n  value \(1, 0\)   key 0"):
        harness.push2(0, timestamp=2)


def test_records_without_timestamps_are_refused() -> None:
    """They would all be of the same time, and each paired with each."""
    with pytest.raises(ProgramError, match="'Interval Join': records of an interval join need timestamps"):
        joined(0, 10).push1("l")


def test_mistakes_are_refused_where_they_are_made() -> None:
    """They would be found by a worker, or never."""
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([1])
    keyed = stream.key_by(same_key)
    with pytest.raises(TypeError, match="expected a keyed stream"):
        keyed.interval_join(stream)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must have keys of one type"):
        stream.key_by(same_key, Types.INT()).interval_join(stream.key_by(same_key, Types.STRING()))
    with pytest.raises(ValueError, match="got 5 ms and -5 ms"):
        keyed.interval_join(keyed).between(5, -5)
    between = keyed.interval_join(keyed).between(5, 6)
    with pytest.raises(ValueError, match="there is no time between 5 ms and 6 ms"):
        between.lower_bound_exclusive().upper_bound_exclusive().process(Pairs())
    with pytest.raises(TypeError, match="expected an OutputTag"):
        between.side_output_left_late_data("late")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"create one with Pairs\(\)"):
        between.process(Pairs)  # type: ignore[arg-type]
