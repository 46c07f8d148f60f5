"""The windows of Flink's paper (section 4.3): time, sessions, deltas, punctuation, landmarks, counts with an evictor.

One subtask and one key, so that the order of the records is that of the list.

    penstock run examples/windows.py
"""

from penstock.common import Time, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.window import (
    CountEvictor,
    CountTrigger,
    DeltaTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    NeverTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TriggerResult,
)

# (second, price); a price of 0 is a punctuation: trading pauses.
PRICES = [(1, 100), (2, 101), (3, 104), (4, 107), (5, 0), (13, 108), (14, 115), (15, 0)]


class Punctuation(NeverTrigger):
    def on_element(self, element, timestamp, window, ctx):
        return TriggerResult.FIRE if element[1] == 0 else TriggerResult.CONTINUE


def shown_as(name):
    def show(key, window, records):
        yield f"{name}: {' '.join(str(price) for _, price in records)}"

    return show


env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[0] * 1000)
prices = env.from_collection(PRICES).assign_timestamps_and_watermarks(strategy).key_by(lambda record: "ACME")
trades = prices.filter(lambda record: record[1] > 0).key_by(lambda record: "ACME")

trades.window(SlidingEventTimeWindows.of(Time.seconds(6), Time.seconds(2))).apply(shown_as("sliding")).print()
trades.window(EventTimeSessionWindows.with_gap(Time.seconds(5))).apply(shown_as("session")).print()

# Each time the price has moved by more than 5.
delta = PurgingTrigger.of(DeltaTrigger.of(5, lambda old, new: abs(new[1] - old[1])))
trades.window(GlobalWindows.create()).trigger(delta).apply(shown_as("delta")).print()

prices.window(GlobalWindows.create()).trigger(PurgingTrigger.of(Punctuation())).apply(shown_as("punctuation")).print()
# Everything since the start, every three records.
trades.window(GlobalWindows.create()).trigger(CountTrigger.of(3)).apply(shown_as("landmark")).print()

numbers = env.from_collection([(0, number) for number in range(1, 2001)]).key_by(lambda record: "ACME")
counted = numbers.window(GlobalWindows.create()).trigger(CountTrigger.of(1000)).evictor(CountEvictor.of(100))
counted.reduce(lambda a, b: (0, a[1] + b[1])).map(lambda record: f"the last 100 of 1000: {record[1]}").print()

env.execute("windows")
