"""Functions of two connected streams: which method is called, keys, state and timers that the streams share, errors."""

from __future__ import annotations

import pytest

from penstock.common import Types
from penstock.common.errors import UserFunctionError
from penstock.datastream import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    OutputTag,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.engine.runtime.operators.two_inputs import KeyedCoProcessOperator
from penstock.testing import KeyedTwoInputHarness, Timer, TwoInputHarness

ALARMS = OutputTag("alarms")


def name_of(customer):
    return customer["id"]


def customer_of(order):
    return order[0]


class Named(CoMapFunction):
    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map1(self, value):
        return "first", value

    def map2(self, value):
        return "second", value


class Exploded(CoFlatMapFunction):
    def flat_map1(self, value):
        return [value] * value

    def flat_map2(self, value):
        if value:
            return (part for part in value.split())
        return None


class Both(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield "first", value, ctx.timestamp()

    def process_element2(self, value, ctx):
        yield "second", value, ctx.timestamp(), ctx.timer_service().current_watermark()
        yield ALARMS, value


class Orders(KeyedCoProcessFunction):
    """Orders wait for their customer; who does not come within 100 ms is reported."""

    def open(self, runtime_context):
        self.customer = runtime_context.get_state(ValueStateDescriptor("customer", Types.STRING()))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.STRING()))

    def process_element1(self, value, ctx):
        assert ctx.get_current_key() == value["id"]
        self.customer.update(value["name"])
        for order in self.waiting:
            yield value["name"], order
        self.waiting.clear()

    def process_element2(self, value, ctx):
        assert ctx.get_current_key() == value[0]
        if self.customer.value() is not None:
            yield self.customer.value(), value[1]
        else:
            self.waiting.add(value[1])
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 100)

    def on_timer(self, timestamp, ctx):
        for order in self.waiting:
            yield ctx.time_domain().name, ctx.get_current_key(), order


def test_each_stream_has_its_map() -> None:
    """Records of one stream would be given to the function of the other."""
    with TwoInputHarness(lambda first, second: first.connect(second).map(Named())) as harness:
        harness.push1(1, timestamp=10)
        harness.push2(2)
        harness.push1(3)
        assert harness.outputs_with_timestamps() == [(("first", 1), 10), (("second", 2), None), (("first", 3), None)]


def test_flat_map_gives_any_number_of_results() -> None:
    """Lists, generators and None, which flat_map takes, would not do for two streams."""
    with TwoInputHarness(lambda first, second: first.connect(second).flat_map(Exploded())) as harness:
        harness.push1(2)
        harness.push2("to be")
        harness.push2("")
        harness.push1(0)
        assert harness.outputs() == [2, 2, "to", "be"]


def test_process_without_keys_has_times_and_side_outputs() -> None:
    """A function that needs timestamps or side outputs would need keys for them."""
    with TwoInputHarness(lambda first, second: first.connect(second).process(Both())) as harness:
        harness.watermark1(50)
        harness.push1("a", timestamp=7)
        harness.watermark2(40)
        harness.push2("b", timestamp=41)
        assert harness.outputs() == [("first", "a", 7), ("second", "b", 41, 40)]
        assert harness.side_outputs(ALARMS) == ["b"]
        assert harness.watermarks() == [40]


def test_streams_with_keys_share_state_and_timers() -> None:
    """A join by hand would never find the records of the other stream."""
    with KeyedTwoInputHarness(Orders(), name_of, customer_of) as harness:
        harness.push2(("ada", "tea"), timestamp=1_000)
        harness.push2(("bob", "jam"), timestamp=1_010)
        assert harness.timers() == [Timer(1_100, "ada"), Timer(1_110, "bob")]
        harness.push1({"id": "ada", "name": "Ada L."}, timestamp=900)
        harness.push2(("ada", "milk"), timestamp=1_020)
        assert harness.state("waiting", "bob") == ["jam"]
        harness.watermark1(1_110)
        assert harness.outputs() == [("Ada L.", "tea"), ("Ada L.", "milk")]
        harness.watermark2(1_110)
        assert harness.outputs()[2:] == [("EVENT_TIME", "bob", "jam")]


class Even(CoMapFunction):
    def map1(self, value):
        return value if value % 2 == 0 else None

    def map2(self, value):
        return self.map1(len(value))


def test_a_map_that_returns_none_emits_nothing() -> None:
    """As in PyFlink, whose programs filter with it: the next function would get a None that it does not expect."""

    def program(first, second):
        return first.connect(second).map(Even())

    def with_keys(first, second):
        return program(first.key_by(lambda value: 0), second.key_by(lambda value: 0))

    for connected in (program, with_keys):
        with TwoInputHarness(connected) as harness:
            for value in (0, 1, 2):
                harness.push1(value)
            for value in ("", "a", "aa"):
                harness.push2(value)
            assert harness.outputs() == [0, 2, 0, 2]


class Counted(CoMapFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def map1(self, value):
        self.count.update((self.count.value() or 0) + 1)
        return value, self.count.value()

    def map2(self, value):
        return self.map1(value)


def test_a_map_of_streams_with_keys_has_keyed_state() -> None:
    """As a MapFunction on a keyed stream it may count, by key and over both streams."""
    with KeyedTwoInputHarness(Counted(), lambda value: value, lambda value: value) as harness:
        harness.push1("a")
        harness.push2("a")
        harness.push2("b")
        assert harness.outputs() == [("a", 1), ("a", 2), ("b", 1)]


def test_keyed_state_needs_keys_on_both_streams() -> None:
    """State of a function without keys would be that of whatever key came last."""
    with pytest.raises(UserFunctionError, match=r"in Counted\.open(.|\n)*after key_by"):
        TwoInputHarness(lambda first, second: first.connect(second.key_by(customer_of)).map(Counted()))


class Failing(KeyedCoProcessFunction):
    def process_element1(self, value, ctx):
        raise ValueError("first")

    def process_element2(self, value, ctx):
        yield value
        raise ValueError("second")


def test_a_failure_names_the_method_the_value_and_the_key() -> None:
    """A user would look for the failing record in the other stream."""
    harness = KeyedTwoInputHarness(Failing(), lambda value: value, lambda value: value[0], subtask=1, parallelism=3)
    with pytest.raises(
        UserFunctionError,
        match=r"'Co-Keyed-Process', subtask 2 of 3, in Failing\.process_element1\n  value 'x'   key 'x'   timestamp 5",
    ):
        harness.push1("x", timestamp=5)
    with pytest.raises(UserFunctionError, match=r"Failing\.process_element2\n  value \('y', 2\)   key 'y'"):
        harness.push2(("y", 2))


def test_a_failing_map_is_named_as_the_user_knows_it() -> None:
    """The message would name a class that the user never wrote."""

    class Wrong(CoMapFunction):
        def map1(self, value):
            return 1 / value

        def map2(self, value):
            return value

    harness = TwoInputHarness(lambda first, second: first.connect(second).map(Wrong()))
    with pytest.raises(UserFunctionError, match=r"'Co-Map', subtask 1 of 1, in .*Wrong\.map1\n  value 0"):
        harness.push1(0)


def test_results_are_copies() -> None:
    """A list that a function goes on changing would change under whoever got it."""
    kept: list[int] = []

    class Growing(CoFlatMapFunction):
        def flat_map1(self, value):
            kept.append(value)
            yield kept

        def flat_map2(self, value):
            return self.flat_map1(value)

    with TwoInputHarness(lambda first, second: first.connect(second).flat_map(Growing())) as harness:
        harness.push1(1)
        harness.push2(2)
        assert harness.outputs() == [[1], [1, 2]]


def test_a_generator_that_pauses_keeps_its_input_and_key(rig) -> None:
    """Results of a record would come with the key of another one, or twice."""

    class Many(KeyedCoProcessFunction):
        def process_element1(self, value, ctx):
            for n in range(5):
                yield ctx.get_current_key(), n

        def process_element2(self, value, ctx):
            return [("list", n) for n in range(5)]

    env = StreamExecutionEnvironment.get_execution_environment()
    first, second = env.from_collection([1]), env.from_collection([2])
    stream = first.connect(second).key_by(lambda value: value, lambda value: value).process(Many())
    operator = stream._transformation.operator
    assert isinstance(operator, KeyedCoProcessOperator)
    one = rig(operator, patient=False, chunk_records=2)
    assert one.process(7, 8) == [((key, n), None) for key in (7, 8) for n in range(5)]
    assert one.pauses >= 4


def test_what_can_not_be_connected_is_refused() -> None:
    """A mistake in the program would be found by a worker, in the middle of the job."""
    env = StreamExecutionEnvironment.get_execution_environment()
    first, second = env.from_collection([1]), env.from_collection([2])
    with pytest.raises(TypeError, match="expected a stream for connect"):
        first.connect([2])  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="have no keys: call key_by on both"):
        first.connect(second).process(Orders())
    with pytest.raises(TypeError, match=r"expected a CoMapFunction, .* which lacks map1 and map2"):
        first.connect(second).map(lambda value: value)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"expected an instance, got the class Named: create one with Named\(\)"):
        first.connect(second).map(Named)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must have keys of one type"):
        first.key_by(str, Types.STRING()).connect(second.key_by(int, Types.LONG()))


def test_types_of_results_are_those_of_both_methods() -> None:
    """Rows would be pickled although their type is known."""

    class Typed(CoMapFunction):
        def map1(self, value) -> int:
            return value

        def map2(self, value) -> int:
            return value

    env = StreamExecutionEnvironment.get_execution_environment()
    connected = env.from_collection([1]).connect(env.from_collection([2]))
    assert connected.map(Typed()).get_type() == env.from_collection([1]).map(Typed().map1).get_type()
    assert connected.map(Named()).get_type() == Types.PICKLED_BYTE_ARRAY()
    assert connected.map(Named(), output_type=Types.STRING()).get_type() == Types.STRING()


def test_a_harness_of_two_streams_says_how_it_is_used() -> None:
    """A record would silently go to the first stream."""
    harness = TwoInputHarness(lambda first, second: first.connect(second).map(Named()))
    with pytest.raises(TypeError, match="push1 or push2"):
        harness.push(1)
    with pytest.raises(TypeError, match="expected a KeyedCoProcessFunction"):
        KeyedTwoInputHarness(len, name_of, customer_of)
    with pytest.raises(ValueError, match="must be one operator; before 'Co-Map' it has 'Map', 'Collection Source'"):
        TwoInputHarness(lambda first, second: first.map(str).connect(second).map(Named()))
