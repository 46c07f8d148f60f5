"""Asynchronous I/O: request the price of each order from a service, many at a time, and again after a failure.

penstock run examples/prices.py
"""

import asyncio

from penstock.common import Time
from penstock.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment
from penstock.datastream.functions import AsyncRetryStrategy

PRICES = {"tea": 3, "jam": 4, "milk": 1, "salt": 2}
ORDERS = ["tea", "jam", "milk", "salt"]


class Price(AsyncFunction):
    """A client of a service that takes 50 ms to answer, and fails the first request for milk."""

    def __init__(self):
        self.was_away = False

    async def async_invoke(self, order):
        await asyncio.sleep(0.05)
        if order == "milk" and not self.was_away:
            self.was_away = True
            raise ConnectionError("the price service is away")
        return [f"{order}: {PRICES[order]} euros"]

    def timeout(self, order):
        return [f"{order}: no price"]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
retries = AsyncRetryStrategy.fixed_delay(3, 100, exception_predicate=lambda error: isinstance(error, ConnectionError))
orders = env.from_collection(ORDERS)
AsyncDataStream.ordered_wait_with_retry(orders, Price(), Time.seconds(5), retries, capacity=100).print()
env.execute("prices")
