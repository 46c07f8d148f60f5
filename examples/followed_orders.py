"""Controlling a job: start it, inspect it while it runs, take results as they arrive, and cancel it.

The source is unbounded: ten orders per second. After twenty large ones the program cancels the job.

    penstock run examples/followed_orders.py
"""

from penstock.common import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy

env = StreamExecutionEnvironment.get_execution_environment()


def order(number):
    return {"customer": f"c{number % 3}", "amount": number * 37 % 100}


orders = env.from_source(
    DataGeneratorSource(order, None, RateLimiterStrategy.per_second(10)), WatermarkStrategy.no_watermarks(), "orders"
)
big = orders.filter(lambda order: order["amount"] >= 50).name("big orders")

with big.execute_and_collect("orders") as results:
    client = results.get_job_client()
    for count, result in enumerate(results, 1):
        print(result)
        if count == 20:
            break
    print(client.get_metrics()["orders"]["numRecordsOut"], "orders so far;", client.get_job_status().result().name)

print("and then:", client.get_job_status().result().name)
