"""Process functions on keyed streams, reduce and its combiner: state by key, timers, pauses, errors."""

from __future__ import annotations

import pytest

from penstock.api.output_tag import OutputTag
from penstock.api.state.descriptors import ValueStateDescriptor
from penstock.api.timers import TimeDomain
from penstock.common import Types
from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.errors import UserFunctionError
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.process import KeyedProcessOperator
from penstock.engine.runtime.operators.reduce import CombineOperator, ReduceOperator
from penstock.engine.runtime.operators.two_inputs import KeyedCoProcessOperator
from penstock.engine.runtime.windows.two_streams import TaggedKey

SIDE = OutputTag("side")
COUNT = ValueStateDescriptor("count", Types.LONG())


def first(value):
    return value[0]


class Function:
    """A KeyedProcessFunction made of two functions."""

    def __init__(self, process, on_timer=None) -> None:
        self.process, self.timer = process, on_timer

    def open(self, context):
        self.count = context.get_state(COUNT)

    def process_element(self, value, ctx):
        return self.process(self, value, ctx)

    def on_timer(self, timestamp, ctx):
        return self.timer(self, timestamp, ctx) if self.timer else None


def keyed(process, on_timer=None, key=first):
    return KeyedProcessOperator("Keyed", key, UserFunction(Function(process, on_timer), "process_element"))


def counting(self, value, ctx):
    self.count.update((self.count.value() or 0) + 1)
    yield (*value, self.count.value(), ctx.get_current_key(), ctx.timestamp())


def set_timers(self, value, ctx):
    for timestamp in value[1]:
        ctx.timer_service().register_event_time_timer(timestamp)


def test_state_is_that_of_the_records_key(rig) -> None:
    """Counts of different keys would be mixed up."""
    one = rig(keyed(counting))
    assert [value for value, _ in one.process("ax", "bx", "ay", at=[1, 2, 3])] == [
        ("a", "x", 1, "a", 1),
        ("b", "x", 1, "b", 2),
        ("a", "y", 2, "a", 3),
    ]
    assert one.process("bz") == [(("b", "z", 2, "b", None), None)]


def explode(self, value, ctx):
    self.count.update((self.count.value() or 0) + 1)
    if value[1] % 2:
        return [(*value, i, self.count.value()) for i in range(value[1])]

    def lazily():
        for i in range(value[1]):
            # What a generator reads when it goes on is still the state of its own key.
            yield (*value, i, self.count.value())

    return lazily()


@pytest.mark.parametrize("chunk_records", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("timed", [True, False])
def test_results_are_the_same_wherever_it_pauses(rig, chunk_records: int, timed: bool) -> None:
    """A function that explodes would lose results, or read another key's state when it goes on."""
    values = [("a", 3), ("b", 4), ("a", 0), ("b", 5), ("a", 6)]
    counts = [1, 1, 2, 2, 3]
    at = [10, 20, 30, 40, 50] if timed else None
    expected = [
        ((*value, i, count), at[n] if at else None)
        for n, (value, count) in enumerate(zip(values, counts, strict=True))
        for i in range(value[1])
    ]
    assert rig(keyed(explode)).process(*values, at=at) == expected
    impatient = rig(keyed(explode), patient=False, chunk_records=chunk_records)
    assert impatient.process(*values, at=at) == expected
    assert impatient.pauses >= len({n for n in range(len(values)) if values[n][1] >= chunk_records})
    refused = rig(keyed(explode), chunk_records=chunk_records)
    refused.refuses = True
    assert refused.process(*values, at=at) == expected


def test_lists_are_no_reason_not_to_pause(rig) -> None:
    """4,096 records that return lists of thousands would fill the memory before the first of them leaves."""
    one = rig(keyed(lambda self, value, ctx: [value] * 100), chunk_records=10)
    one.process(*["a"] * 50, at=list(range(50)))
    assert one.chunks == [100] * 50
    one.process(*["a"] * 50)
    assert one.chunks == [100] * 100


def test_timers_fire_in_order_and_before_the_watermark_goes_on(rig) -> None:
    """What a timer emits would be late for the windows behind it."""
    fired = []

    def on_timer(self, timestamp, ctx):
        fired.append((timestamp, ctx.get_current_key(), ctx.timer_service().current_watermark(), ctx.time_domain()))
        yield timestamp, ctx.timestamp()
        yield SIDE, timestamp

    one = rig(keyed(set_timers, on_timer))
    one.process(("a", [30, 10]), ("b", [20, 10]), at=[1, 2])
    assert one.until(20) == [
        ("side", "side", 10, 10),
        ("side", "side", 10, 10),
        ("side", "side", 20, 20),
        ((10, 10), 10),
        ((10, 10), 10),
        ((20, 20), 20),
        ("watermark", 20),
    ]
    assert fired == [(t, key, 20, TimeDomain.EVENT_TIME) for t, key in ((10, "a"), (10, "b"), (20, "b"))]


def test_a_timer_in_the_past_fires_with_the_next_watermark(rig) -> None:
    """A function that is late with its alarm would never get it."""
    one = rig(keyed(set_timers, lambda self, timestamp, ctx: [timestamp]))
    one.until(100)
    assert one.process(("a", [5])) == []
    assert one.until(101) == [(5, 5), ("watermark", 101)]


def test_timers_that_set_timers(rig) -> None:
    """A function that ticks every minute would miss minutes when event time jumps."""

    def tick(self, timestamp, ctx):
        ctx.timer_service().register_event_time_timer(timestamp + 10)
        if timestamp == 30:
            ctx.timer_service().register_event_time_timer(5)
            ctx.timer_service().delete_event_time_timer(1000)
        yield timestamp

    one = rig(keyed(set_timers, tick))
    one.process(("a", [10, 1000]))
    assert [value for value, _ in one.until(45)[:-1]] == [10, 20, 30, 5, 15, 25, 35, 40, 45]
    assert [timer[0] for timer in one.operator.timers.event_time] == [50, 55]


@pytest.mark.parametrize("chunk_records", [1, 2, 3, 100])
def test_timers_that_explode_can_be_left_anywhere(rig, chunk_records: int) -> None:
    """The rest of what a timer emits would be lost when the task has to do something else."""

    def generate(self, timestamp, ctx):
        for i in range(5):
            yield timestamp, ctx.get_current_key(), i

    def listed(self, timestamp, ctx):
        return list(generate(self, timestamp, ctx))

    expected = [((t, key, i), t) for t, key in ((1, "a"), (2, "b"), (3, "a")) for i in range(5)]
    for on_timer in (generate, listed):
        for settings in ({"patient": False}, {}):
            one = rig(keyed(set_timers, on_timer), chunk_records=chunk_records, **settings)
            one.process(("a", [1, 3]), ("b", [2]))
            one.refuses = not settings
            assert one.until(9) == [*expected, ("watermark", 9)]


def test_a_watermark_waits_while_what_was_emitted_is_held_up(rig) -> None:
    """An operator behind, paused on the timer's results, would get the watermark before them: they would be late."""
    one = rig(keyed(set_timers, lambda self, timestamp, ctx: [timestamp]))
    one.process(("a", [1]))
    one.refuses = True
    assert one.operator.watermark(5) is False
    assert one.operator.paused
    assert one.log == [(1, 1)]
    one.refuses = False
    assert one.operator.resume() is True
    assert one.log == [(1, 1), ("watermark", 5)]


def test_a_million_silent_timers_do_not_hold_the_task(rig) -> None:
    """Barriers, flushes and cancel would wait for the clean-up of a whole day."""
    one = rig(keyed(set_timers), patient=False, chunk_records=100)
    one.process(*((key, [1]) for key in range(1000)))
    one.pauses = 0
    one.until(1)
    assert one.pauses >= 9


def test_slow_timers_do_not_hold_the_task(rig) -> None:
    """Barriers, flushes and cancel would wait until a slow function was called for a chunk of timers."""
    fired = []
    one = rig(keyed(set_timers, lambda self, timestamp, ctx: fired.append(ctx.get_current_key())), patient=False)
    one.process(*((key, [1]) for key in range(100)))
    one.pauses = 0
    one.until(1)
    assert one.pauses >= 12 and len(fired) == 100


def test_processing_time_timers(rig) -> None:
    """Timeouts would not come, or come again and again."""

    def process(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(value[1])

    def on_timer(self, timestamp, ctx):
        if timestamp == 20:
            ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 5)
        yield timestamp, ctx.time_domain()

    one = rig(keyed(process, on_timer))
    assert one.operator.wake_at_ms() is None
    one.process(("a", 20), ("b", 10), ("c", 30))
    assert one.operator.wake_at_ms() == 10
    processing = TimeDomain.PROCESSING_TIME
    # Their results have no event time, as nothing says which.
    assert one.clock(21) == [((10, processing), None), ((20, processing), None)]
    assert one.operator.wake_at_ms() == 26
    one.operator.timers.processing_time.delete(26, "a")
    assert one.operator.wake_at_ms() == 30


@pytest.mark.parametrize(
    ("on_timer", "message"),
    [
        (lambda self, timestamp, ctx: 1 // 0, "ZeroDivisionError"),
        (lambda self, timestamp, ctx: (1 // 0 for _ in "a"), "ZeroDivisionError"),
        (lambda self, timestamp, ctx: 5, "'int' object is not iterable"),
    ],
)
def test_an_error_in_a_timer_names_key_and_time(rig, on_timer, message: str) -> None:
    """There is no value to look for: key and time are all that the user has."""
    one = rig(keyed(set_timers, on_timer))
    one.process(("the key", [7]))
    with pytest.raises(UserFunctionError) as caught:
        one.until(9)
    text = str(caught.value)
    assert "in Function.on_timer" in text
    assert "key 'the key'   timestamp 7" in text
    assert message in text


@pytest.mark.parametrize("lazily", [True, False])
def test_an_error_names_value_and_key(rig, lazily: bool) -> None:
    """The user would have to search all records for the one that failed."""

    def process(self, value, ctx):
        return (1 // value[1] for _ in "a") if lazily else [1 // value[1]]

    for at in (None, [5, 6, 7]):
        with pytest.raises(UserFunctionError) as caught:
            rig(keyed(process)).process(("a", 1), ("b", 0), ("c", 1), at=at)
        assert "in Function.process_element\n  value ('b', 0)   key 'b'" + ("   timestamp 6" if at else "") in str(
            caught.value
        )


def test_an_error_in_the_key_selector_names_the_value(rig) -> None:
    """A record without the key field would be reported by a bare KeyError."""
    with pytest.raises(UserFunctionError, match=r"in key selector\n  value \{'b': 1\}\n"):
        rig(keyed(counting, key=lambda value: value["a"])).process({"a": 1}, {"b": 1})


def test_the_end_of_a_key_fires_everything_and_forgets(rig) -> None:
    """In batched mode timers would never fire, state would grow with all keys, and a timer could go on for ever."""

    def process(self, value, ctx):
        self.count.update(1)
        for at in (10**15, 20):
            ctx.timer_service().register_processing_time_timer(at)
            ctx.timer_service().register_event_time_timer(at)

    def on_timer(self, timestamp, ctx):
        ctx.timer_service().register_event_time_timer(timestamp + 1)
        ctx.timer_service().register_processing_time_timer(timestamp + 1)
        yield ctx.time_domain().name, timestamp, ctx.timer_service().current_watermark() == MAX_TIMESTAMP

    one = rig(keyed(process, on_timer), batched=True, patient=False, chunk_records=1)
    one.process("a", at=[1])
    one.now_ms = 10**16
    assert one.operator.wake_at_ms() is None, "processing time does not pass while a batch runs"
    assert [value for value, _ in one.do(one.operator.end_key)] == [
        ("EVENT_TIME", 20, True),
        ("EVENT_TIME", 10**15, True),
        ("PROCESSING_TIME", 20, True),
        ("PROCESSING_TIME", 10**15, True),
    ]
    assert not any(one.operator.backend.tables.values())
    assert (len(one.operator.timers.event_time), len(one.operator.timers.processing_time)) == (0, 0)
    assert one.operator.timers.watermark == MIN_TIMESTAMP


class OpenedSelector:
    """A key selector with a life cycle."""

    def __init__(self, calls):
        self.calls = calls

    def open(self, context):
        self.calls.append(("open", context.get_index_of_this_subtask()))
        self.first = 0

    def get_key(self, value):
        return value[self.first]

    def close(self):
        self.calls.append("close")


def test_key_selectors_are_opened_and_closed(rig) -> None:
    """A selector that loads a table in `open` would fail with the first record."""
    calls = []
    select = OpenedSelector(calls).get_key
    operators = [
        keyed(counting, key=select),
        ReduceOperator("Reduce", select, UserFunction(max, "reduce")),
        CombineOperator("Combine", select, UserFunction(max, "reduce")),
        KeyedCoProcessOperator("Co", len, select, UserFunction(max, "reduce"), UserFunction(max, "reduce")),
        keyed(counting, key=TaggedKey(len, select)),
    ]
    for operator in operators:
        calls.clear()
        rig(operator).operator.close()
        assert calls == [("open", 1), "close"], operator.name


def test_callables_that_select_keys_have_no_life_cycle(rig) -> None:
    """`len` is a function of a module, which has an `open`, for files."""
    rig(keyed(counting, key=len)).operator.close()
