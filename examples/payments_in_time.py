"""Joins of two streams by time: payments within ten seconds of their order, and the payments of each minute's orders.

A record stays in state as long as a partner may arrive. Both modes print the same results, in another order.

    penstock run examples/payments_in_time.py
"""

from penstock.common import Duration, Time, WatermarkStrategy
from penstock.datastream import CoGroupFunction, StreamExecutionEnvironment
from penstock.datastream.window import TumblingEventTimeWindows

# (order, second, what) and (order, second, euros)
ORDERS = [(1, 1, "tea"), (2, 3, "jam"), (3, 12, "milk"), (4, 65, "salt")]
PAYMENTS = [(1, 2, 3), (3, 14, 1), (3, 15, 1), (2, 30, 4), (4, 65, 1)]


class Paid(CoGroupFunction):
    def co_group(self, orders, payments):
        euros = sum(payment[2] for payment in payments)
        yield from (f"per minute: {what}, {euros} euros" for _, _, what in orders)


def in_time(order, payment, ctx):
    seconds = (ctx.get_right_timestamp() - ctx.get_left_timestamp()) // 1000
    yield f"in time: {order[2]}, {payment[2]} euros after {seconds} s"


def number_of(record):
    return record[0]


env = StreamExecutionEnvironment.get_execution_environment()
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[1] * 1000)
orders = env.from_collection(ORDERS).assign_timestamps_and_watermarks(strategy)
payments = env.from_collection(PAYMENTS).assign_timestamps_and_watermarks(strategy)

ten_seconds = Duration.of_seconds(10)
orders.key_by(number_of).interval_join(payments.key_by(number_of)).between(0, ten_seconds).process(in_time).print()

minutes = TumblingEventTimeWindows.of(Time.minutes(1))
orders.co_group(payments).where(number_of).equal_to(number_of).window(minutes).apply(Paid()).print()

env.execute("payments in time")
