"""Windows and late records: clicks per page in ten seconds, with late ones on a side output.

A watermark after each click makes the late records the same in each run. In batched mode no record is late.

    penstock run examples/late_clicks.py
"""

from penstock.common import Time, WatermarkStrategy
from penstock.common.watermark_strategy import WatermarkGenerator
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.datastream.window import TumblingEventTimeWindows

# (page, event time in seconds), in the order of arrival. 12 is just in time, 3 is late.
CLICKS = [("home", 1), ("home", 4), ("shop", 9), ("home", 14), ("shop", 21), ("home", 12), ("home", 3), ("shop", 33)]
LATE = OutputTag("late clicks")


class ThreeSecondsBehind(WatermarkGenerator):
    def on_event(self, value, timestamp, output):
        output.emit_watermark(timestamp - 3001)

    def on_periodic_emit(self, output):
        pass


def count(page, window, clicks):
    yield f"{page} from second {window.start // 1000}: {len(list(clicks))}"


env = StreamExecutionEnvironment.get_execution_environment()
strategy = WatermarkStrategy.for_generator(ThreeSecondsBehind).with_timestamp_assigner(lambda click, _: click[1] * 1000)

counts = (
    env.from_collection(CLICKS)
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda click: click[0])
    .window(TumblingEventTimeWindows.of(Time.seconds(10)))
    .side_output_late_data(LATE)
    .apply(count)
)
counts.print()
counts.get_side_output(LATE).print("late")

env.execute("late clicks")
