"""Time to live: which orders are a customer's first one within thirty days?

penstock removes the state of a customer who stays away that long.

    penstock run examples/first_orders.py
"""

from penstock.common import Time, Types
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.state import StateTtlConfig, ValueStateDescriptor

ORDERS = [("ada", "tea"), ("bob", "jam"), ("ada", "milk"), ("eve", "salt"), ("bob", "tea")]

MONTH = StateTtlConfig.new_builder(Time.days(30)).update_ttl_on_create_and_write().build()


class FirstOnly(KeyedProcessFunction):
    def open(self, runtime_context):
        known = ValueStateDescriptor("known", Types.BOOLEAN())
        known.enable_time_to_live(MONTH)
        self.known = runtime_context.get_state(known)

    def process_element(self, order, ctx):
        if not self.known.value():
            yield f"welcome, {order[0]}: {order[1]}"
        self.known.update(True)


env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection(ORDERS).key_by(lambda order: order[0]).process(FirstOnly()).uid("first orders").print()
env.execute("first orders")
