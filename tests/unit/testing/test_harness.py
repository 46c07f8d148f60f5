"""The harness for user functions: its tests must behave like a job."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.api.output_tag import OutputTag
from penstock.common import Time, Types
from penstock.common.errors import UserFunctionError
from penstock.common.values.copies import never_copied
from penstock.datastream import (
    CoFlatMapFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    TimeDomain,
)
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing import (
    ChangedValueError,
    KeyedOneInputHarness,
    KeyedTwoInputHarness,
    OneInputHarness,
    OperatorHarness,
    Timer,
)

DOCUMENT = Path(__file__).parents[3] / "docs" / "how-to" / "testing.md"
ANY = Types.PICKLED_BYTE_ARRAY()
LATE = OutputTag("late")


def first(value):
    return value[0]


def keyed(process, on_timer=None, **descriptors):
    """A harness around a KeyedProcessFunction with these states, given as attributes of `self`."""

    class Function(KeyedProcessFunction):
        def open(self, runtime_context):
            self.asked = []
            for name, (getter, descriptor) in descriptors.items():
                setattr(self, name, getattr(runtime_context, getter)(descriptor))

        def process_element(self, value, ctx):
            return process(self, value, ctx)

        def on_timer(self, timestamp, ctx):
            return on_timer(self, timestamp, ctx) if on_timer else None

    return KeyedOneInputHarness(Function(), first)


def test_the_documented_example_runs() -> None:
    """The first example that users try would fail."""
    examples = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    namespace: dict = {}
    for example in examples:
        exec(example, namespace)

    with pytest.raises(ChangedValueError) as caught:
        KeyedOneInputHarness(namespace["Basket"](), lambda value: "ada").push("tea")
    shown = DOCUMENT.read_text(encoding="utf-8").rpartition("```")[2].partition("\n## ")[0]
    assert str(caught.value) == " ".join(shown.split())


def test_functions_without_a_key() -> None:
    """Map, flat_map, filter and process functions could be tested only by running a job."""

    class Double(MapFunction):
        def map(self, value):
            return value * 2

    class Twice(FlatMapFunction):
        def flat_map(self, value):
            return [value, value]

    class Even(FilterFunction):
        def filter(self, value):
            return value % 2 == 0

    class Split(ProcessFunction):
        def process_element(self, value, ctx):
            yield (LATE, value) if value < 0 else (value, ctx.timestamp())

    for function, expected in ((Double(), [2, 4]), (Twice(), [1, 1, 2, 2]), (Even(), [2])):
        harness = OneInputHarness(function)
        harness.push(1)
        harness.push(2)
        assert harness.outputs() == expected

    harness = OneInputHarness(Split())
    harness.push(3, timestamp=7)
    harness.push(-3, timestamp=8)
    assert harness.outputs_with_timestamps() == [((3, 7), 7)]
    assert harness.side_outputs(LATE) == [-3]
    assert harness.side_outputs(OutputTag("other")) == []


def test_functions_of_a_key_keep_its_state() -> None:
    """A MapFunction or ReduceFunction on a keyed stream would behave differently than in a job."""

    class Add(ReduceFunction):
        def reduce(self, value1, value2):
            return value1[0], value1[1] + value2[1]

    class Numbered(MapFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

        def map(self, value):
            self.count.update((self.count.value() or 0) + 1)
            return (*value, self.count.value())

    reducing = KeyedOneInputHarness(Add(), first)
    numbering = KeyedOneInputHarness(Numbered(), first)
    for harness in (reducing, numbering):
        for value in (("a", 1), ("b", 5), ("a", 2)):
            harness.push(value)

    assert reducing.outputs() == [("a", 1), ("b", 5), ("a", 3)]
    assert numbering.outputs() == [("a", 1, 1), ("b", 5, 1), ("a", 2, 2)]
    assert numbering.state("count", "a") == 2


def test_timers_fire_at_their_time_and_are_listed() -> None:
    """A test could not check which timers are registered, or when they fire."""
    fired = []

    def process(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1])
        ctx.timer_service().register_processing_time_timer(value[1] * 10)

    def on_timer(self, timestamp, ctx):
        fired.append((timestamp, ctx.get_current_key(), ctx.time_domain()))
        if ctx.time_domain() is TimeDomain.PROCESSING_TIME and timestamp == 50:
            ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 1)
        yield timestamp

    harness = keyed(process, on_timer)
    harness.push(("a", 5), timestamp=1)
    harness.push(("b", 3), timestamp=2)
    assert harness.timers() == [
        Timer(3, "b"),
        Timer(5, "a"),
        Timer(30, "b", TimeDomain.PROCESSING_TIME),
        Timer(50, "a", TimeDomain.PROCESSING_TIME),
    ]

    harness.watermark(4)
    assert fired == [(3, "b", TimeDomain.EVENT_TIME)]
    harness.advance_ms(49)
    assert fired[1:] == [(30, "b", TimeDomain.PROCESSING_TIME)]
    harness.advance_ms(10)
    assert fired[2:] == [(50, "a", TimeDomain.PROCESSING_TIME), (51, "a", TimeDomain.PROCESSING_TIME)]
    assert harness.now_ms == 59
    assert harness.watermarks() == [4]
    harness.clear_outputs()
    harness.finish()
    assert harness.outputs_with_timestamps() == [(5, 5)]
    assert harness.timers() == []


def test_windows_run_in_the_harness() -> None:
    """Testing a window would require a job."""
    harness = OperatorHarness(
        lambda stream: (
            stream.key_by(first)
            .window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
            .side_output_late_data(LATE)
            .reduce(lambda a, b: (a[0], a[1] + b[1]))
        )
    )
    harness.push(("a", 1), timestamp=3)
    harness.push(("a", 2), timestamp=9)
    harness.push(("a", 4), timestamp=10)
    harness.watermark(9)
    harness.push(("a", 8), timestamp=5)

    assert harness.outputs_with_timestamps() == [(("a", 3), 9)]
    assert harness.side_outputs(LATE) == [("a", 8)]
    harness.finish()
    assert harness.outputs() == [("a", 3), ("a", 4)]


def test_state_of_all_kinds_can_be_read() -> None:
    """A test could only infer a function's state from its outputs."""

    class Longest:
        def create_accumulator(self):
            return 0

        def add(self, value, accumulator):
            return max(accumulator, value)

        def get_result(self, accumulator):
            return f"longest {accumulator}"

        def merge(self, a, b):
            return max(a, b)

    def process(self, value, ctx):
        self.value.update(value[1])
        self.list.add(value[1])
        self.map.put(value[1], True)
        self.sum.add(value[1])
        self.longest.add(value[1])

    harness = keyed(
        process,
        value=("get_state", ValueStateDescriptor("value", ANY)),
        list=("get_list_state", ListStateDescriptor("list", ANY)),
        map=("get_map_state", MapStateDescriptor("map", ANY, ANY)),
        sum=("get_reducing_state", ReducingStateDescriptor("sum", lambda a, b: a + b, ANY)),
        longest=("get_aggregating_state", AggregatingStateDescriptor("longest", Longest(), ANY)),
    )
    for number in (3, 1):
        harness.push(("a", number))

    names = ("value", "list", "map", "sum", "longest")
    assert [harness.state(name, "a") for name in names] == [1, [3, 1], {3: True, 1: True}, 4, "longest 3"]
    assert [harness.state(name, "b") for name in names] == [None, [], {}, None, None]
    with pytest.raises(ValueError, match="has no state 'other'; it has requested: 'value', 'list'"):
        harness.state("other", "a")


def emit_then_change(self, value, ctx):
    whole = [value]
    yield whole
    whole.append("more")


def keep_and_change_later(self, value, ctx):
    if self.asked:
        self.asked[0].append("more")
    self.asked.append([value])
    yield self.asked[-1]


def test_a_value_changed_after_it_was_emitted_stays_as_it_was_emitted() -> None:
    """A test would pass, or fail, by values that no reader of the stream sees."""
    for process in (emit_then_change, keep_and_change_later):
        harness = keyed(process)
        for _ in range(2):
            harness.push(("a", 1))
        assert harness.outputs() == [[("a", 1)], [("a", 1)]]

    class Sides(ProcessFunction):
        def process_element(self, value, ctx):
            yield LATE, value
            value.clear()

    sides = OneInputHarness(Sides())
    sides.push({"x": 1})
    assert sides.side_outputs(LATE) == [{"x": 1}]


OF_EACH_KIND: dict[str, Any] = {
    "value": ("get_state", ValueStateDescriptor("value", ANY)),
    "list": ("get_list_state", ListStateDescriptor("list", ANY)),
    "map": ("get_map_state", MapStateDescriptor("map", ANY, ANY)),
    "sum": ("get_reducing_state", ReducingStateDescriptor("sum", lambda a, b: a + b, ANY)),
}
"""States that are watched for changes in place."""


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda self: self.value.value().append(9), "the state 'value' of key 'a'"),
        (lambda self: next(iter(self.list.get())).append(9), r"the state 'list'\[0\] of key 'a'"),
        (lambda self: self.map.get("x").append(9), r"the state 'map'\['x'\] of key 'a'"),
        (lambda self: [v.append(9) for _, v in self.map.items()], r"the state 'map'\['x'\] of key 'a'"),
        (lambda self: self.sum.get().append(9), "the state 'sum' of key 'a'"),
    ],
)
def test_a_value_changed_in_state_without_update_is_told(change, told: str) -> None:
    """The change would persist on the heap, but be lost in RocksDB."""

    def process(self, value, ctx):
        if value[1] == "store":
            self.value.update([1])
            self.list.add([1])
            self.map.put("x", [1])
            self.sum.add([1])
        elif value[1] == "properly":
            values = self.value.value()
            values.append(2)
            self.value.update(values)
            entry = self.map.get("x")
            entry.append(2)
            self.map.put("x", entry)
            self.sum.add([2])
            self.list.clear()
            self.list.add_all([[1], [2]])
        else:
            change(self)

    harness = keyed(process, **OF_EACH_KIND)
    harness.push(("a", "store"))
    harness.push(("a", "properly"))
    with pytest.raises(ChangedValueError, match=told):
        harness.push(("a", "change"))


def test_immutable_values_in_state_are_not_compared() -> None:
    """A test with thousands of keys would take minutes: each step would pickle all values stored so far."""
    pickled = []

    @never_copied
    class Figure:
        def __reduce__(self) -> Any:
            pickled.append(self)
            return Figure, ()

    def process(self, value, ctx):
        self.value.update(Figure())
        self.map.put("x", (1, Figure()))
        self.list.update([self.value.value(), self.map.get("x")])

    harness = keyed(process, **OF_EACH_KIND)
    harness.push(("a", 1))
    harness.push(("b", 2))
    assert not pickled


@pytest.mark.parametrize(
    "change",
    [
        lambda self: self.value.value().append(9) or self.value.value(),
        lambda self: [one.append(9) for one in self.list.get()] + [*self.list.get()],
        lambda self: self.map.get("x").append(9) or self.map.get("x"),
        lambda self: self.map.get("x").append(9) or [*self.map.items()],
        lambda self: self.sum.get().append(9) or self.sum.get(),
    ],
)
def test_a_change_is_told_though_it_is_read_back(change) -> None:
    """What a function reads after its change is what it has changed only as long as it is on the heap."""

    def process(self, value, ctx):
        self.value.update([1])
        self.list.add([1])
        self.map.put("x", [1])
        self.sum.add([1])
        change(self)

    harness = keyed(process, **OF_EACH_KIND)
    with pytest.raises(UserFunctionError, match=r"ChangedValueError: .* changed it in place"):
        harness.push(("a", "change"))


def test_equal_values_are_no_change() -> None:
    """False alarms at each step would teach users to ignore them."""
    harness = keyed(
        lambda self, value, ctx: self.value.update({"sum": (self.value.value() or {"sum": 0})["sum"] + 1}),
        value=("get_state", ValueStateDescriptor("value", ANY)),
    )
    for _ in range(3):
        harness.push(("a", 1))
    assert harness.state("value", "a") == {"sum": 3}


def test_failures_of_the_function_look_as_in_a_job() -> None:
    """The error in production would differ from the one users know from tests."""
    harness = OperatorHarness(lambda stream: stream.map(lambda value: 1 // value).name("divide"))
    with pytest.raises(UserFunctionError, match=r"operator 'divide', subtask 1 of 1, in .*lambda") as caught:
        harness.push(0)
    assert "value 0" in str(caught.value)
    assert "ZeroDivisionError" in str(caught.value)


def test_wrong_use_is_refused() -> None:
    """A test that checks nothing would pass."""
    with pytest.raises(ValueError, match=r"one operator; before 'Filter' it has 'Map'"):
        OperatorHarness(lambda stream: stream.map(str).filter(bool))
    with pytest.raises(ValueError, match="return the stream after its operator"):
        OperatorHarness(lambda stream: stream)
    with pytest.raises(TypeError, match="For a plain callable"):
        OneInputHarness(str)
    harness = OperatorHarness(lambda stream: stream.map(str))
    harness.watermark(5)
    with pytest.raises(ValueError, match="can't go back from 5 to 4"):
        harness.watermark(4)
    with pytest.raises(ValueError, match="can't go back by 1 ms"):
        harness.advance_ms(-1)
    with pytest.raises(ValueError, match="its stream is not keyed"):
        harness.timers()


def test_timers_that_never_stop_are_told() -> None:
    """The test would hang without an explanation."""

    def again(self, timestamp, ctx):
        ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time())

    harness = keyed(lambda self, value, ctx: ctx.timer_service().register_processing_time_timer(1), again)
    harness.push(("a", 1))
    with pytest.raises(RuntimeError, match="does each timer register the next"):
        harness.advance_ms(10)


def test_open_and_close_are_called_once() -> None:
    """What `open` prepares and `close` releases would remain untested."""
    calls = []

    class Function(MapFunction):
        def open(self, runtime_context):
            calls.append(
                ("open", runtime_context.get_index_of_this_subtask(), runtime_context.get_job_parameter("p", ""))
            )

        def map(self, value):
            return value

        def close(self):
            calls.append("close")

    with OneInputHarness(Function(), subtask=2, parallelism=4, job_parameters={"p": "q"}) as harness:
        harness.push(1)
    harness.close()
    assert calls == [("open", 2, "q"), "close"]


NO_KEYS = [[{1}], {"a": {1}}, {1}, float("nan"), object(), bytearray(b"x")]


@pytest.mark.parametrize("key", NO_KEYS, ids=lambda key: type(key).__name__)
def test_a_key_that_a_job_refuses_is_refused(key) -> None:
    """The tests would pass, and the job fail at its first record."""
    with keyed(lambda function, value, ctx: [value]) as harness:
        harness.push(("good", 1), timestamp=1)
        with pytest.raises(UserFunctionError, match="in key selector") as raised:
            harness.push((key, 1), timestamp=1)
        assert "KeyTypeError" in str(raised.value) or "can't be a key" in str(raised.value)


@pytest.mark.parametrize("side", [1, 2])
def test_keys_of_both_inputs_are_checked(side) -> None:
    """The second stream's key would be refused by the job alone."""

    class Both(CoFlatMapFunction):
        def flat_map1(self, value):
            return [value]

        flat_map2 = flat_map1

    with KeyedTwoInputHarness(Both(), first, first) as harness:
        push = harness.push1 if side == 1 else harness.push2
        push(("good", 1))
        with pytest.raises(UserFunctionError, match="in key selector"):
            push(({1}, 1))
