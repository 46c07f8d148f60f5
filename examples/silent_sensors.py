"""State and timers: report each sensor without readings for more than a minute of event time.

Readings arrive out of order, so each waits for a timer of its own timestamp: timers fire in timestamp order,
whatever the order of arrival. The reading then registers the alarm, which fires if no reading follows in time.

    penstock run examples/silent_sensors.py
"""

from penstock.common import WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor

MINUTE_MS = 60_000

# (sensor, event time in ms)
READINGS = [("cellar", 0), ("attic", 10_000), ("cellar", 95_000), ("attic", 150_000), ("cellar", 40_000)]


class WatchForSilence(KeyedProcessFunction):
    def open(self, runtime_context):
        self.readings = runtime_context.get_map_state(MapStateDescriptor("readings"))
        self.latest = runtime_context.get_state(ValueStateDescriptor("latest"))

    def process_element(self, value, ctx):
        self.readings.put(ctx.timestamp(), True)
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    def on_timer(self, timestamp, ctx):
        if self.readings.contains(timestamp):
            self.readings.remove(timestamp)
            self.latest.update(timestamp)
            ctx.timer_service().register_event_time_timer(timestamp + MINUTE_MS)
        elif self.latest.value() == timestamp - MINUTE_MS:
            yield f"{ctx.get_current_key()} was silent from second {self.latest.value() // 1000} on"


env = StreamExecutionEnvironment.get_execution_environment()
strategy = WatermarkStrategy.for_bounded_out_of_orderness(MINUTE_MS).with_timestamp_assigner(lambda value, _: value[1])

(
    env.from_collection(READINGS)
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda reading: reading[0])
    .process(WatchForSilence())
    .print()
)

env.execute("silent sensors")
