"""Broadcast state: payments against limits that change while the job runs.

Every subtask gets every limit. A payment that arrives before its limit is checked when the limit arrives, because it is
in the state of its account. Both modes therefore report the same.

    penstock run examples/spending_limits.py
"""

from penstock.common import Types
from penstock.datastream import KeyedBroadcastProcessFunction, StreamExecutionEnvironment
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor

PAYMENTS = [("ada", 30), ("bob", 80), ("ada", 25), ("eve", 10), ("eve", 95)]
LIMITS = [("watch", 50), ("block", 100)]

LIMIT = MapStateDescriptor("limit", Types.STRING(), Types.INT())
SPENT = ValueStateDescriptor("spent", Types.INT())


class Limits(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.spent = runtime_context.get_state(SPENT)

    def process_element(self, payment, ctx):
        account, amount = payment
        before = self.spent.value() or 0
        self.spent.update(before + amount)
        for name, limit in ctx.get_broadcast_state(LIMIT).items():
            if before <= limit < before + amount:
                yield f"{name} {account}"

    def process_broadcast_element(self, rule, ctx):
        name, limit = rule
        ctx.get_broadcast_state(LIMIT).put(name, limit)
        above = []
        ctx.apply_to_keyed_state(SPENT, lambda account, spent: above.append(account) if spent.value() > limit else None)
        yield from (f"{name} {account}" for account in above)


env = StreamExecutionEnvironment.get_execution_environment()
payments = env.from_collection(PAYMENTS).key_by(lambda payment: payment[0])
limits = env.from_collection(LIMITS).broadcast(LIMIT)

payments.connect(limits).process(Limits()).print()

env.execute("spending limits")
