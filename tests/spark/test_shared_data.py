"""Real data whose counts are known: network logs with real lateness, a day of edits."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.first_cases import first_of
from tests.spark.jobs import BATCH, ROOT, STREAMING, batched, collect, environment, pipelined

from penstock.common import Duration, Time, WatermarkStrategy
from penstock.common.watermark_strategy import WatermarkGenerator
from penstock.connectors.files.source import FileSource, StreamFormat
from penstock.datastream import MapFunction, OutputTag, ProcessFunction, RuntimeExecutionMode
from penstock.datastream.functions import AggregateFunction, KeyedProcessFunction, ProcessWindowFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

pytestmark = pytest.mark.spark
DATA = ROOT.parent / "shared" / "data"
ZEEK = {"dns": "zeek-wrccdc/dns.json.gz", "ssl": "zeek-wrccdc/ssl.json.gz"}
SHIPS = "ais-us-2022/ais_2022-01-03_first-99999.csv.gz"
LATE_SHIPS = {0: 99_217, 30: 93_869, 60: 83_351, 120: 54_154, 180: 24_157, 240: 7_939, 300: 2_859, 600: 1_039, 900: 7}
"""Of the positions of the day's first hour, by the bound in seconds: as if the clocks of 352 others were right."""
EDITS = "wikipedia-edits/wikiticker-2015-09-12-sampled.json.gz"
LATE = {
    "dns": {0: 13_003, 1: 9_454, 5: 9_330, 6: 9_320, 10: 6_824, 30: 2_852, 60: 1_572, 120: 225, 300: 2, 600: 1},
    "ssl": {0: 38_133, 1: 35_626, 5: 5_150, 6: 981, 10: 411, 30: 388, 60: 386, 120: 379, 300: 13, 600: 1},
}
BOUNDS = {"dns": (0, 5, 30, 120, 600), "ssl": (1, 10, 60, 300)}
"""Each bound is a chain of its own, so that half of them, over both logs, shows what all do."""
RECORDS = {"dns": 53_615, "ssl": 49_474}
PAIRS = {"dns": 825, "ssl": 1_124}
KEYS = {"dns": 77, "ssl": 115}
LOOKED_UP = {5: 4_734, 30: 4_913, 60: 5_061}
"""TLS records with a DNS record of their client and name at most so many seconds before."""
MICROSECOND = dt.timedelta(microseconds=1)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def source(name: str, form: StreamFormat | None = None) -> FileSource:
    path: Path = DATA / name
    if not path.exists():
        pytest.skip(f"the shared data set {name} is not on this machine")
    return FileSource.for_record_stream_format(form or StreamFormat.json_lines_format(), path).build()


def micros(text: str) -> int:
    return (dt.datetime.fromisoformat(text) - EPOCH) // MICROSECOND


class Behind(WatermarkGenerator):
    """After each record: all that is not above the highest time so far, less the bound, has come.

    In microseconds, since that is how exact the log's times are; event time is any whole number.
    """

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self.highest = -(2**62)

    def on_event(self, value: Any, timestamp: int, output: Any) -> None:
        self.highest = max(self.highest, timestamp)
        output.emit_watermark(self.highest - self.bound - 1)

    def on_periodic_emit(self, output: Any) -> None:
        """A watermark follows each record."""


class IsLate(ProcessFunction[Any, tuple[int, int]]):
    def __init__(self, bound: int) -> None:
        self.bound = bound

    def process_element(self, value: Any, ctx: Any) -> Any:
        if ctx.timestamp() <= ctx.timer_service().current_watermark():
            yield self.bound, 1


@pytest.mark.parametrize("log", first_of(1, reversed(ZEEK)))
def test_late_records_for_each_bound(log: str) -> None:
    """What is late would hang on how records happen to be gathered into buffers."""
    env = environment(STREAMING, 1)
    times = env.from_source(source(ZEEK[log]), WatermarkStrategy.no_watermarks(), log).map(lambda r: micros(r["ts"]))
    late = []
    for seconds in BOUNDS[log]:
        strategy = WatermarkStrategy.for_generator(lambda seconds=seconds: Behind(seconds * 1_000_000))
        stamped = times.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(lambda v, _: v))
        late.append(stamped.process(IsLate(seconds)))
    counts = Counter(seconds for seconds, _ in collect(late[0].union(*late[1:])))

    assert {seconds: counts[seconds] for seconds in BOUNDS[log]} == {
        seconds: LATE[log][seconds] for seconds in BOUNDS[log]
    }


class CountAll(ProcessWindowFunction[Any, Any, str, Any]):
    def process(self, key: str, context: Any, elements: Any) -> Any:
        yield key, context.window().start, len(list(elements))


def zeek_windows(log: str, mode: RuntimeExecutionMode, bound: Duration, late: OutputTag | None = None) -> Any:
    env = environment(mode, 2)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(bound)
    strategy = strategy.with_timestamp_assigner(lambda record, _: micros(record["ts"]) // 1_000)
    records = env.from_source(source(ZEEK[log]), strategy, log).key_by(lambda record: record["id.orig_h"])
    windows = records.window(TumblingEventTimeWindows.of(Time.minutes(1)))
    return (windows.side_output_late_data(late) if late is not None else windows).process(CountAll())


@pytest.mark.parametrize(("log", "mode"), [("dns", STREAMING), ("ssl", BATCH)], ids=["dns-pipelined", "ssl-batched"])
def test_windows_of_clients(log: str, mode: RuntimeExecutionMode) -> None:
    """Minutes without a result, or with two, where the data were out of order."""
    windows = collect(zeek_windows(log, mode, Duration.of_minutes(15)))

    assert len(windows) == PAIRS[log]
    assert len({(key, start) for key, start, _ in windows}) == PAIRS[log]
    assert len({start for _, start, _ in windows}) == 22
    assert len({key for key, _, _ in windows}) == KEYS[log]
    assert sum(count for _, _, count in windows) == RECORDS[log]


def test_every_record_in_its_window_or_late() -> None:
    """Records that are neither in a result nor reported as late are lost."""
    late = OutputTag("late")
    windows = zeek_windows("dns", STREAMING, Duration.of_seconds(5), late)
    both = windows.map(lambda w: ("window", w[2])).union(windows.get_side_output(late).map(lambda r: ("late", 1)))
    totals: Counter[str] = Counter()
    for name, count in collect(both):
        totals[name] += count

    assert totals["window"] + totals["late"] == RECORDS["dns"]
    assert totals["late"] > 0


class AddUp(AggregateFunction[Any, tuple[int, int, int, int], Any]):
    def create_accumulator(self) -> tuple[int, int, int, int]:
        return 0, 0, 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        count, added, deleted, delta = accumulator
        return count + 1, added + value["added"], deleted + value["deleted"], delta + value["delta"]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return tuple(map(sum, zip(acc_a, acc_b, strict=True)))


class PerUser(KeyedProcessFunction[str, Any, Any]):
    """The number of edits of a user, when the day is over."""

    def open(self, runtime_context: Any) -> None:
        self.edits = runtime_context.get_state(ValueStateDescriptor("edits"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.edits.update((self.edits.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(2**62)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield "user", ctx.get_current_key(), self.edits.value()


@pipelined
def test_a_day_of_edits(mode: RuntimeExecutionMode) -> None:
    """Sums over a day that everybody can check."""
    env = environment(mode, 2)
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    strategy = strategy.with_timestamp_assigner(lambda edit, _: micros(edit["time"]) // 1_000)
    edits = env.from_source(source(EDITS), strategy, "edits")
    hours = edits.key_by(lambda e: e["channel"]).window(TumblingEventTimeWindows.of(Time.hours(1))).aggregate(AddUp())
    users = edits.key_by(lambda e: e["user"]).process(PerUser())
    results = collect(hours.map(lambda sums: ("hour", sums)).union(users))
    sums = [result[1] for result in results if result[0] == "hour"]
    per_user = {result[1]: result[2] for result in results if result[0] == "user"}

    assert len(sums) == 909
    assert [sum(column) for column in zip(*sums, strict=True)] == [39_244, 9_385_573, 394_298, 8_991_275]
    assert len(per_user) == 10_531
    assert sum(per_user.values()) == 39_244
    most = {"TuanminhBot": 3_385, "ThitxongkhoiAWB": 2_036, "TuanUt-Bot!": 1_792, "TuanUt": 984}
    assert {user: per_user[user] for user in most} == most


@batched
def test_channels_and_robots(mode: RuntimeExecutionMode) -> None:
    """Counts per key, by a reduce over a day that is known."""
    env = environment(mode, 2)
    edits = env.from_source(source(EDITS), WatermarkStrategy.no_watermarks(), "edits")
    names = edits.flat_map(
        lambda e: [("channel", e["channel"]), ("robot", e["isRobot"]), ("anonymous", e["isAnonymous"])]
    )
    counts = names.map(lambda name: (name, 1)).key_by(lambda v: v[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    last = dict(collect(counts))

    assert sum(name == "channel" for name, _ in last) == 51
    channels = {"#en.wikipedia": 11_549, "#vi.wikipedia": 9_747, "#de.wikipedia": 2_523, "#fr.wikipedia": 2_099}
    assert {channel: last["channel", channel] for channel in channels} == channels
    assert last["robot", True] == 15_420
    assert last["anonymous", True] == 3_799
    if mode is BATCH:
        assert len(last) == 55


class Numbered(MapFunction):
    """Each record with its number, to tell equal ones apart."""

    def __init__(self) -> None:
        self.count = 0

    def map(self, value: Any) -> Any:
        self.count += 1
        return self.count, value


@pipelined
def test_names_that_were_looked_up_before_they_were_used(mode: RuntimeExecutionMode) -> None:
    """An interval join would lose pairs of real, disordered streams, or find some that are none."""
    env = environment(mode, 2)
    strategy = WatermarkStrategy.for_generator(lambda: Behind(15 * 60 * 1_000_000))
    # A join costs six seconds of CPU in STREAMING mode.
    bounds = LOOKED_UP if mode is RuntimeExecutionMode.BATCH else [30]
    looked_up = (
        env.from_source(source(ZEEK["dns"]), WatermarkStrategy.no_watermarks(), "dns")
        .map(lambda record: (record["id.orig_h"], record.get("query"), micros(record["ts"])))
        .assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(lambda record, _: record[2]))
        .key_by(lambda record: record[:2])
    )
    used = (
        env.from_source(source(ZEEK["ssl"]), WatermarkStrategy.no_watermarks(), "ssl")
        .set_parallelism(1)
        .filter(lambda record: record.get("server_name"))
        .set_parallelism(1)
        .map(Numbered())
        .set_parallelism(1)
        .map(lambda pair: (pair[1]["id.orig_h"], pair[1]["server_name"], micros(pair[1]["ts"]), pair[0]))
        .set_parallelism(1)
        .assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(lambda record, _: record[2]))
        .set_parallelism(1)
        .key_by(lambda record: record[:2])
    )
    joins = [
        used.interval_join(looked_up)
        .between(-seconds * 1_000_000, 0)
        .process(lambda one, other, ctx, seconds=seconds: [(seconds, one[3])])
        for seconds in bounds
    ]
    found = Counter(seconds for seconds, _ in set(collect(joins[0].union(*joins[1:]))))

    assert found == {seconds: LOOKED_UP[seconds] for seconds in bounds}


class Once(KeyedProcessFunction[Any, Any, Any]):
    """The first record of each key."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        if not self.seen.value():
            self.seen.update(True)
            yield value


def test_queries_that_the_capture_saw_twice() -> None:
    """A step that removes duplicates would let some through, or take records for equal that are not."""
    env = environment(STREAMING, 2)
    queries = env.from_source(source(ZEEK["dns"]), WatermarkStrategy.no_watermarks(), "dns").map(
        lambda record: tuple(record.get(name) for name in ("uid", "trans_id", "query", "qtype"))
    )
    found = collect(queries.key_by(lambda query: query).process(Once()))
    assert len(found) == len(set(found)) == 24_600


class Believed(WatermarkGenerator):
    """Behind the highest time; one that is far ahead counts when a hundred in a row are."""

    def __init__(self, bound_ms: int) -> None:
        self.bound_ms = bound_ms
        self.highest: int | None = None
        self.beyond = 0

    def on_event(self, value: Any, timestamp: int, output: Any) -> None:
        if self.highest is not None and timestamp > self.highest + 600_000:
            self.beyond += 1
            if self.beyond < 100:
                return
        self.beyond = 0
        self.highest = timestamp if self.highest is None else max(self.highest, timestamp)
        output.emit_watermark(self.highest - self.bound_ms - 1)

    def on_periodic_emit(self, output: Any) -> None:
        """A watermark follows each record."""


def test_ships_whose_clocks_are_wrong() -> None:
    """One time from the far future would make the rest of a day late."""
    env = environment(STREAMING, 1)
    lines = env.from_source(source(SHIPS, StreamFormat.text_line_format()), WatermarkStrategy.no_watermarks(), "ships")
    times = lines.filter(lambda line: not line.startswith("MMSI")).map(lambda line: line.split(",")[1])
    late = []
    for bound in LATE_SHIPS:
        strategy = WatermarkStrategy.for_generator(lambda bound=bound: Believed(bound * 1_000))
        strategy = strategy.with_timestamp_assigner(lambda time, _: micros(f"{time}+00:00") // 1_000)
        late.append(times.assign_timestamps_and_watermarks(strategy).process(IsLate(bound)))
    assert Counter(bound for bound, _ in collect(late[0].union(*late[1:]))) == LATE_SHIPS
