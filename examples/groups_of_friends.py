"""Streaming connected components: find the groups of friends, while friendships arrive.

Each person knows the smallest name in the group so far. A person who learns a smaller one sends it to all friends.
These messages pass through the loop until they bring no news. Each line is a change; the last line of a person
is valid.

    penstock run examples/groups_of_friends.py
"""

from penstock.datastream import KeyedProcessFunction, OutputTag, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor

FRIENDSHIPS = [("eve", "finn"), ("cleo", "dan"), ("ada", "bob"), ("bob", "cleo"), ("gus", "eve"), ("hal", "ivy")]
TELL = OutputTag("tell")


class Hear(KeyedProcessFunction):
    def open(self, runtime_context):
        self.friends = runtime_context.get_map_state(MapStateDescriptor("friends"))
        self.smallest = runtime_context.get_state(ValueStateDescriptor("smallest"))

    def process_element(self, value, ctx):
        person, friend, name = value
        known = self.smallest.value() or person
        if friend is not None:
            self.friends.put(friend, True)
            yield TELL, (friend, None, known)
        if name < known:
            self.smallest.update(name)
            yield f"{person} belongs to {name}"
            for other in self.friends:
                yield TELL, (other, None, name)


def both_ways(friendship):
    one, other = friendship
    yield one, other, one
    yield other, one, other


env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.STREAMING)

messages = env.from_collection(FRIENDSHIPS).flat_map(both_ways).iterate()
news = messages.key_by(lambda message: message[0]).process(Hear())
messages.close_with(news.get_side_output(TELL))

news.print()

env.execute("groups of friends")
