"""Metrics of your own: count the lines that cannot be read, and measure the size of orders.

Counters and distributions are summed over subtasks and reported while the job runs; `penstock top` shows the metrics
of penstock itself.

    penstock run -p 2 examples/counted_orders.py
"""

from penstock.datastream import FlatMapFunction, StreamExecutionEnvironment

LINES = ["ada 30", "bob 80", "ada", "eve 10", "eve ninety", "bob 25"]


class Parse(FlatMapFunction):
    def open(self, runtime_context):
        metrics = runtime_context.get_metrics_group().add_group("orders")
        self.broken = metrics.counter("broken")
        self.euros = metrics.distribution("euros")

    def flat_map(self, line):
        customer, _, euros = line.partition(" ")
        if not euros.isdigit():
            self.broken.inc()
            return
        self.euros.update(int(euros))
        yield customer, int(euros)


env = StreamExecutionEnvironment.get_execution_environment()
lines = env.from_collection(LINES)
lines.rebalance().flat_map(Parse()).key_by(lambda order: order[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).print()
result = env.execute("counted orders")

for name, value in sorted(result.get_all_accumulator_results().items()):
    print(f"{name}: {value}")
