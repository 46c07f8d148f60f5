"""The origin of event time: sources with their splits, and assign_timestamps_and_watermarks in mid-stream."""

from __future__ import annotations

from copy import copy
from datetime import timedelta

import numpy as np
import pytest

from penstock.api.source import END_OF_INPUT, Nothing, Records
from penstock.common import Duration, WatermarkStrategy
from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.errors import UserFunctionError
from penstock.common.watermark_strategy import WatermarkGenerator
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.operators.source import SourceOperator
from penstock.engine.runtime.operators.timestamps import TimestampsAndWatermarksOperator
from penstock.engine.runtime.time.event_time import EventTime


class Announced(WatermarkGenerator):
    """A value ("w", ms) announces a watermark, ("idle",) idleness, ("active",) its end."""

    def on_event(self, value, timestamp, output):
        if value == ("idle",):
            output.mark_idle()
        elif value == ("active",):
            output.mark_active()
        elif isinstance(value, tuple):
            output.emit_watermark(value[1])

    def on_periodic_emit(self, output):
        pass


BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(10))
PUNCTUATED = WatermarkStrategy.for_generator(Announced)
BY_VALUE = copy(BOUNDED).with_timestamp_assigner(lambda value, timestamp: value)


class Splits:
    """A source whose reader emits what the test puts in."""

    def __init__(self, interleaved: bool = True) -> None:
        self.script: list = []
        self.calls: list = []
        self.interleaved = interleaved

    def create_reader(self, context):
        self.context = context
        return self

    def start(self):
        self.calls.append("start")

    def close(self):
        self.calls.append("close")

    def add_splits(self, splits):
        self.calls.append([split.split_id for split in splits])

    def interleaves(self, split):
        return self.interleaved

    def no_more_splits(self):
        self.calls.append("no more")

    def poll(self, max_records):
        self.max_records = max_records
        return self.script.pop(0) if self.script else Nothing()


class Split:
    def __init__(self, split_id: str) -> None:
        self.split_id = split_id


class Reading:
    """A source operator in a rig."""

    def __init__(
        self, rig, strategy, *splits: str, interval_ms: int = 200, interleaved: bool = True, **settings
    ) -> None:
        self.source = Splits(interleaved)
        self.rig = rig(SourceOperator("Source", self.source, strategy, interval_ms), **settings)
        self.rig.operator.add_splits([Split(split) for split in splits])

    def reads(self, *results) -> list:
        self.source.script = list(results)
        return self.rig.do(lambda: [self.rig.operator.poll(64) for _ in results][-1])

    def tick(self, now_ms: int) -> list:
        return self.rig.clock(now_ms)


def records(split: str, *values, at=None, finished: bool = False) -> Records:
    return Records(split, list(values), at, finished)


def test_the_watermark_is_that_of_the_slowest_split(rig) -> None:
    """Records of the second partition would be late, though they are in order."""
    one = Reading(rig, BY_VALUE, "a", "b")
    assert one.reads(records("a", 1000)) == [(1000, 1000)]
    assert one.tick(200) == []
    assert one.reads(records("b", 50)) == [(50, 50)]
    assert one.tick(400) == [("watermark", 39)]
    assert one.reads(records("b", 70, finished=True)) == [(70, 70), ("watermark", 989)]


def test_splits_that_are_read_in_turn_hold_nothing_back_before_their_turn(rig) -> None:
    """All windows of a thousand files would wait for the last of them."""
    one = Reading(rig, BY_VALUE, "a", "b", interleaved=False)
    one.reads(records("a", 1000))
    assert one.tick(200) == [("watermark", 989)]
    assert one.reads(records("a", 1010, finished=True)) == [(1010, 1010), ("watermark", 999)]
    one.reads(records("b", 20))
    assert one.tick(400) == []
    one.reads(records("b", 2000))
    assert one.tick(600) == [("watermark", 1989)]


def test_a_split_that_is_added_behind_the_others_is_waited_for(rig) -> None:
    """All records of a partition that is discovered late would be dropped as late."""
    one = Reading(rig, BY_VALUE, "a")
    one.reads(records("a", 100))
    assert one.tick(200) == [("watermark", 89)]
    one.rig.operator.add_splits([Split("b")])
    one.reads(records("a", 500))
    assert one.tick(400) == []
    one.reads(records("b", 120))
    assert one.tick(600) == [("watermark", 109)]


def test_a_split_that_wakes_up_behind_the_others_is_waited_for(rig) -> None:
    """The records with which it wakes up would be dropped as late."""
    one = Reading(rig, BY_VALUE.with_idleness(Duration.of_millis(500)), "a", "b")
    one.reads(records("a", 100), records("b", 100))
    one.tick(200)
    one.rig.now_ms = 550
    one.reads(records("a", 200))
    assert one.tick(600) == [("watermark", 189)], "b is idle"
    one.reads(records("b", 150), records("a", 900))
    assert one.tick(800) == [], "b is at 139, behind what has been emitted"
    one.reads(records("b", 400))
    assert one.tick(1000) == [("watermark", 389)]


def test_time_in_which_a_source_could_not_emit_is_no_idleness(rig) -> None:
    """Behind a slow sink all partitions would count as idle, and event time would run ahead of their records."""
    one = Reading(rig, BY_VALUE.with_idleness(Duration.of_millis(500)), "a", "b")
    one.reads(records("a", 1000), records("b", 100))
    one.rig.blocked_ms = 60_000
    assert one.tick(60_200) == [("watermark", 89)]
    one.reads(records("a", 1000))
    assert one.tick(60_400) == []
    assert one.tick(60_600) == [("watermark", 989)], "b has been quiet for 600 ms"


def test_a_chunk_that_takes_long_is_no_idleness(rig) -> None:
    """A split whose records a slow function of the same chain works on for a minute would count as idle."""
    one = Reading(rig, BY_VALUE.with_idleness(Duration.of_millis(500)), "a")
    one.reads(records("a", 900))
    one.tick(200)
    one.rig.takes_ms = 60_000
    one.reads(records("a", 1000))
    assert one.tick(60_300) == [("watermark", 989)]


def test_watermarks_come_at_the_interval_and_only_if_they_moved(rig) -> None:
    """The network would be full of watermarks that say nothing."""
    one = Reading(rig, BY_VALUE, "a")
    assert one.rig.operator.wake_at_ms() == 200
    one.reads(records("a", 100))
    assert one.tick(199) == []
    assert one.tick(200) == [("watermark", 89)]
    assert one.tick(400) == []
    assert one.rig.operator.wake_at_ms() == 600


def test_an_interval_of_zero_means_none(rig) -> None:
    """The task would wake up continuously and occupy a core."""
    assert Reading(rig, BY_VALUE, "a", interval_ms=0).rig.operator.wake_at_ms() is None
    assert rig(TimestampsAndWatermarksOperator("T", BY_VALUE, 0)).operator.wake_at_ms() is None


def test_an_idle_split_and_its_awakening(rig) -> None:
    """One quiet partition would stop the job; one that speaks again would be ignored."""
    one = Reading(rig, BY_VALUE.with_idleness(Duration.of_millis(500)), "a", "b")
    one.reads(records("a", 1000), records("b", 100))
    assert one.tick(200) == [("watermark", 89)]
    one.rig.now_ms = 400
    one.reads(records("a", 1000))
    assert one.tick(600) == [("watermark", 989)]
    assert one.tick(1000) == [("status", False)]
    assert one.reads(records("a", 1500)) == [(1500, 1500), ("status", True)]
    assert one.tick(1200) == [("watermark", 1489)]


def test_a_source_without_splits_does_not_hold_time_back_for_ever(rig) -> None:
    """A subtask that got no split would stop event time for the whole job."""
    one = Reading(rig, BY_VALUE.with_idleness(Duration.of_millis(500)))
    assert one.tick(200) == []
    assert one.tick(600) == [("status", False)]


def test_the_end_comes_after_everything(rig) -> None:
    """Event time would move backwards from its end, inside the chain."""
    one = Reading(rig, BY_VALUE.with_idleness(Duration.of_millis(100)), "a")
    one.reads(records("a", 1000))
    one.tick(200)
    before = len(one.rig.log)
    one.reads(END_OF_INPUT)
    assert one.rig.operator.ended
    one.rig.operator.end_time()
    assert one.rig.log[before:] == [("status", True), ("watermark", MAX_TIMESTAMP)]
    assert one.rig.operator.wake_at_ms() is None
    assert one.rig.counters.watermark == MAX_TIMESTAMP


def test_when_to_poll_again_is_any_whole_number(rig) -> None:
    """A time of numpy's would be refused, and a length of time would be compared with a clock."""
    one = Reading(rig, BY_VALUE)
    one.reads(Nothing(retry_at_ms=np.int64(70)))
    assert one.rig.operator.poll_at_ms == 70 and type(one.rig.operator.poll_at_ms) is int
    for no_time in (timedelta(seconds=1), Duration.of_millis(5), 70.5, "70", True):
        with pytest.raises(UserFunctionError, match=r"Nothing of Splits\.poll returned .*: expected a processing time"):
            one.reads(Nothing(retry_at_ms=no_time))


def test_when_to_poll_again_is_for_the_reader_to_say(rig) -> None:
    """A rate-limited source would spin, one that waits for splits would never be asked again."""
    one = Reading(rig, BY_VALUE)
    operator = one.rig.operator
    one.reads(Nothing(retry_at_ms=70))
    assert operator.poll_at_ms == 70
    one.reads(Nothing())
    assert operator.poll_at_ms is None
    one.rig.now_ms = 90
    operator.add_splits([Split("a")])
    assert operator.poll_at_ms == 90
    one.reads(Nothing())
    operator.no_more_splits()
    assert operator.poll_at_ms == 90
    assert one.source.calls == ["start", [], ["a"], "no more"]
    operator.close()
    assert one.source.calls[-1] == "close"


def test_records_keep_the_timestamps_of_the_source(rig) -> None:
    """Kafka's timestamps would be lost where no assigner is given."""
    one = Reading(rig, BOUNDED, "a")
    assert one.reads(records("a", "x", "y", at=[5, 6])) == [("x", 5), ("y", 6)]
    assert one.reads(records("a", "z")) == [("z", None)]
    later = copy(BOUNDED).with_timestamp_assigner(lambda value, timestamp: timestamp + 1000)
    assert Reading(rig, later, "a").reads(records("a", "x", at=[5])) == [("x", 1005)]
    seen = []
    none_yet = copy(BOUNDED).with_timestamp_assigner(lambda value, timestamp: seen.append(timestamp) or 1)
    Reading(rig, none_yet, "a").reads(records("a", "x"))
    assert seen == [MIN_TIMESTAMP]


@pytest.mark.parametrize("source", [True, False])
def test_an_assigner_that_fails_is_told_with_its_value(rig, source: bool) -> None:
    """A record without the time field would be reported by a bare KeyError."""
    strategy = copy(BOUNDED).with_timestamp_assigner(lambda value, timestamp: value["at"])
    with pytest.raises(UserFunctionError, match=r"in timestamp assigner\n  value \{'b': 1\}"):
        if source:
            Reading(rig, strategy, "a").reads(records("a", {"at": 1}, {"b": 1}))
        else:
            rig(TimestampsAndWatermarksOperator("T", strategy, 200)).process({"at": 1}, {"b": 1})


PLAY = ["a", ("w", 5), "b", "c", ("w", 3), ("w", 9), "d"]
PLAYED = [
    ("a", None),
    (("w", 5), None),
    ("watermark", 5),
    ("b", None),
    ("c", None),
    (("w", 3), None),
    (("w", 9), None),
    ("watermark", 9),
    ("d", None),
]


@pytest.mark.parametrize("settings", [{}, {"patient": False}])
def test_punctuated_watermarks_take_their_place_between_records(rig, settings) -> None:
    """The watermark of a marker record would come after records that belong behind it."""
    assert rig(TimestampsAndWatermarksOperator("T", PUNCTUATED, 200), **settings).process(*PLAY) == PLAYED
    assert Reading(rig, PUNCTUATED, "a", **settings).reads(records("a", *PLAY)) == PLAYED


def test_a_watermark_waits_while_its_records_are_held_up(rig) -> None:
    """A flat_map behind, paused within a record, would get the watermark before the rest of it."""
    one = rig(TimestampsAndWatermarksOperator("T", PUNCTUATED, 200))
    one.refuses = True
    assert one.operator.process(Rows(PLAY)) is False
    assert one.log == PLAYED[:2]
    assert one.operator.resume() is False
    assert one.log == PLAYED[:3]
    one.refuses = False
    assert one.operator.resume() is True
    assert one.log == PLAYED


def test_idleness_by_the_generator(rig) -> None:
    """A source that knows that nothing comes could not say so."""
    one = rig(TimestampsAndWatermarksOperator("T", PUNCTUATED, 200))
    expected = [("a", None), (("idle",), None), ("status", False), ("b", None)]
    assert one.process("a", ("idle",), "b") == expected
    assert one.process("c", "d") == [("c", None), ("d", None)], "its generator knows more than that there are records"
    assert one.chunks[-1] == 2
    assert one.process(("w", 5)) == [(("w", 5), None), ("status", True), ("watermark", 5)]
    one.process(("idle",))
    assert one.process(("active",), "e") == [(("active",), None), ("status", True), ("e", None)]


class ByTheClock(WatermarkGenerator):
    """Idle after 5 s without a record; after 60 s nothing older can come, and time goes on by the clock."""

    punctuated = False

    def __init__(self, now_ms):
        self.now_ms = now_ms
        self.last_ms = self.highest = 0

    def on_event(self, value, timestamp, output):
        self.last_ms, self.highest = self.now_ms(), max(self.highest, timestamp)

    def on_periodic_emit(self, output):
        quiet_ms = self.now_ms() - self.last_ms
        if quiet_ms >= 60_000:
            output.emit_watermark(self.highest + quiet_ms)
        elif quiet_ms >= 5_000:
            output.mark_idle()
        else:
            output.emit_watermark(self.highest - 1)


def test_a_generator_that_has_marked_its_output_idle_is_asked_again() -> None:
    """Event time would stand still for ever where a generator means to let it go on by the clock."""
    now = [0]
    strategy = WatermarkStrategy.for_generator(lambda: ByTheClock(lambda: now[0]))
    time = EventTime(strategy, 1_000, lambda: now[0], lambda error, *_: error)
    list(time.pieces(Rows(["a"], [1000])))
    seen = []
    for now[0] in range(1_000, 62_000, 1_000):
        time.periodic()
        seen.append((time.active, time.take_watermark()))
    assert seen == [(True, 999)] + [(True, None)] * 3 + [(False, None)] * 55 + [(True, 61_000), (True, 62_000)]


def test_records_end_the_idleness_that_a_timeout_began_and_no_other() -> None:
    """An output would count again though its generator waits, with a watermark that holds back all others."""
    now = [0]
    time = EventTime(
        copy(PUNCTUATED).with_idleness(Duration.of_millis(500)), 500, lambda: now[0], lambda error, *_: error
    )
    now[0] = 500
    time.periodic()
    assert not time.active
    list(time.pieces(Rows(["a"])))
    assert time.active
    list(time.pieces(Rows([("idle",)])))
    now[0] = 1_000
    time.periodic()
    list(time.pieces(Rows(["b"])))
    assert not time.active


def test_in_mid_stream_what_came_from_upstream_is_replaced(rig) -> None:
    """Late records would be measured by the clock of another strategy."""
    one = rig(TimestampsAndWatermarksOperator("T", BY_VALUE, 200))
    assert one.until(5000) == []
    one.operator.status(False)
    assert one.process(100, at=[7]) == [(100, 100)]
    assert one.clock(200) == [("watermark", 89)]
    assert one.until(MAX_TIMESTAMP) == [("watermark", MAX_TIMESTAMP)]
    assert one.clock(400) == []


def test_in_batched_mode_event_time_stands_still_until_the_end(rig) -> None:
    """Results would depend on the order in which files were read; and each record would become a chunk of its own."""
    one = rig(TimestampsAndWatermarksOperator("T", PUNCTUATED, 200), batched=True)
    assert one.process("a", ("w", 5), *"bcdefgh") == [(v, None) for v in ("a", ("w", 5), *"bcdefgh")]
    assert one.chunks == [2, 7]
    assert one.operator.wake_at_ms() is None
    assert one.until(MAX_TIMESTAMP) == [("watermark", MAX_TIMESTAMP)]


def test_chunks_are_handed_to_periodic_generators_whole() -> None:
    """Every source would pay a call a record for its watermarks."""
    calls = []

    class Periodic(WatermarkGenerator):
        punctuated = False

        def on_event(self, value, timestamp, output):
            raise AssertionError

        def on_chunk(self, values, timestamps, output):
            calls.append((list(values), list(timestamps)))

        def on_periodic_emit(self, output):
            output.emit_watermark(7)
            output.emit_watermark(3)

    time = EventTime(WatermarkStrategy.for_generator(Periodic), 200, lambda: 0, lambda error, *_: error)
    assert list(time.pieces(Rows([1, 2]))) == [Rows([1, 2])]
    assert list(time.pieces(Rows([3], [30]))) == [Rows([3], [30])]
    assert calls == [([1, 2], [MIN_TIMESTAMP] * 2), ([3], [30])]
    assert time.take_watermark() is None
    time.periodic()
    assert (time.take_watermark(), time.take_watermark()) == (7, None)


@pytest.mark.parametrize("kind", [MAX_TIMESTAMP, 2**70, -(2**70), None, float("nan"), 1.5, "1"], ids=repr)
@pytest.mark.parametrize("mid_stream", [False, True])
def test_what_is_no_timestamp_is_refused_with_its_record(rig, kind, mid_stream: bool) -> None:
    """A record would vanish in a window that never ends, or another record would be blamed."""
    strategy = copy(BOUNDED).with_timestamp_assigner(lambda value, timestamp: kind if value == "bad" else 7)
    with pytest.raises(UserFunctionError, match=r"timestamp assigner\n  value 'bad'\n  \S*TimestampError: .*\Z"):
        if mid_stream:
            rig(TimestampsAndWatermarksOperator("T", strategy, 0)).process("good", "bad", "other")
        else:
            Reading(rig, strategy, "a").reads(records("a", "good", "bad", "other"))


@pytest.mark.parametrize("at", [[1, MAX_TIMESTAMP], [1, 2.5], [1, None], [1], [1, 2, 3]], ids=repr)
def test_what_a_source_gives_as_timestamps_is_looked_at_as_well(rig, at) -> None:
    """A reader of one's own would let a record vanish in a window that never ends, or fail far away."""
    reading = Reading(rig, BOUNDED, "a")
    with pytest.raises(UserFunctionError, match=r"reader\.poll\n  value 'bad'"):
        reading.reads(records("a", "good", "bad", at=at))
