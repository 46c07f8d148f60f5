"""The connected parts of a graph, as a delta iteration: the next superstep only looks at what has changed.

Each vertex begins with its own name as its component, and tells its neighbors. A vertex that gets a smaller one takes
it, and tells its neighbors in turn. The iteration ends when no vertex has changed.

    penstock run examples/connected_components.py
"""

from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.functions import KeyedCoProcessFunction
from penstock.datastream.state import ListStateDescriptor
from penstock.iteration import iterate_delta

EDGES = [("ann", "bob"), ("bob", "cat"), ("cat", "dan"), ("eve", "fred"), ("fred", "gus")]


class TellNeighbors(KeyedCoProcessFunction):
    """Keeps the neighbors of a vertex, and sends them its component when that has changed."""

    def open(self, runtime_context):
        self.neighbors = runtime_context.get_list_state(ListStateDescriptor("neighbors"))
        self.changed = runtime_context.get_list_state(ListStateDescriptor("changed"))

    def process_element1(self, edge, ctx):
        self.neighbors.add(edge[1])

    def process_element2(self, vertex, ctx):
        self.changed.add(vertex[1])
        ctx.timer_service().register_event_time_timer(ctx.timestamp())  # when the superstep ends

    def on_timer(self, timestamp, ctx):
        component = min(self.changed.get())
        self.changed.clear()
        for neighbor in self.neighbors.get():
            yield neighbor, component


def take_smaller(name, vertex, messages):
    least = min(component for _, component in messages)
    return (name, least) if vertex is None or least < vertex[1] else None


def first(pair):
    return pair[0]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.STREAMING)

edges = env.from_collection([pair for edge in EDGES for pair in (edge, edge[::-1])])
vertices = env.from_collection([(name, name) for name in sorted({name for edge in EDGES for name in edge})])

components = iterate_delta(vertices, vertices, key=first)
told = edges.key_by(first).connect(components.workset.key_by(first)).process(TellNeighbors())
changed = components.solution_set.co_group(told, take_smaller, key=first)
components.close_with(changed, changed.rebalance()).print()

env.execute("connected components")
