"""The job of the pictures of the dashboard: orders with event time, uneven shops, a slow check, and one failure."""

import time

from penstock.common import Duration, Time, Types, WatermarkStrategy
from penstock.datastream import RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

RATE = 2_000
FAILS_AT = 20_000


def order(number):
    """A shop, of which a few have most customers, euros, and the time of the order (ms)."""
    return f"shop {min(number % 97, number % 13)}", number % 7 + 1, time.time_ns() // 1_000_000


class Turnover(KeyedProcessFunction):
    """Adds up what each shop has sold. It fails once, so that there is a failure to look at."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Its state."""
        descriptor = ValueStateDescriptor("turnover", Types.LONG())
        descriptor.set_queryable("turnover")
        self.turnover = runtime_context.get_state(descriptor)
        self.attempt = runtime_context.get_attempt_number()
        self.seen = 0

    def process_element(self, value, ctx):
        """Emits the order with the turnover of its shop."""
        self.seen += 1
        if self.seen * 2 > FAILS_AT and not self.attempt:
            raise ValueError(f"an order of {value[0]} without a customer")
        total = (self.turnover.value() or 0) + value[1]
        self.turnover.update(total)
        yield value[0], total, value[2]


def checked(value):
    """Takes its time, as a look into another system would."""
    time.sleep(0.0007)
    return value


env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
env.enable_checkpointing(2_000)
strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(500)).with_timestamp_assigner(
    lambda order, _: order[2]
)
orders = env.from_source(DataGeneratorSource(order, None, RateLimiterStrategy.per_second(RATE)), strategy, "orders")
totals = orders.key_by(lambda order: order[0]).process(Turnover()).name("turnover per shop").uid("turnover")
totals.map(checked).name("check").rebalance().filter(lambda one: one[1] % 50 == 0).name("round sums").add_sink(
    lambda one: None
).name("bell")
per_second = orders.key_by(lambda order: order[0]).window(TumblingEventTimeWindows.of(Time.seconds(1)))
per_second.reduce(lambda one, other: (one[0], one[1] + other[1], other[2])).name("euros per second").add_sink(
    lambda total: None
).name("board")
env.execute("orders")
