"""The job of the picture in the README: orders, 30,000 a second, added up per shop and second of event time."""

import time

from penstock.common import Duration, Time, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.window import TumblingEventTimeWindows

RATE = 30_000


def order(number):
    """A shop, euros, and the time of the order (ms)."""
    return number % 1_000, number % 7 + 1, time.time_ns() // 1_000_000


env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
env.enable_checkpointing(2_000)
strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(500)).with_timestamp_assigner(
    lambda order, _: order[2]
)
orders = env.from_source(DataGeneratorSource(order, None, RateLimiterStrategy.per_second(RATE)), strategy, "orders")
seconds = orders.key_by(lambda order: order[0]).window(TumblingEventTimeWindows.of(Time.seconds(1)))
seconds.reduce(lambda one, other: (one[0], one[1] + other[1], other[2])).name("euros per shop").add_sink(
    lambda total: None
).name("dashboard")
env.execute("orders")
