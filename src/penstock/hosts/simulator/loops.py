"""Loops of generated programs: their construction, their functions, and their plain evaluation.

A record is fed back until its number, modulo 64, is small. If the loop is keyed, keyed state counts the turns.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any

from penstock.api.output_tag import OutputTag
from penstock.api.state.descriptors import ValueStateDescriptor
from penstock.datastream.async_data_stream import AsyncDataStream
from penstock.datastream.functions import KeyedProcessFunction, ProcessFunction
from penstock.hosts.simulator import functions
from penstock.hosts.simulator.lifecycles import RecordedFunction
from penstock.hosts.simulator.programs import Node, Record, Timed

FEEDBACK: OutputTag[Record] = OutputTag("again")
INNER: OutputTag[Record] = OutputTag("inner")
TURNS: OutputTag[Record] = OutputTag("turns")
SHAPES = ("plain", "keyed", "several", "async", "nested")
_BRANCHES_MAX = 3
_NUMBERS = 64


def turn(record: Record, step: int, branches: bool) -> list[Record]:
    """Return the records to feed back; none if the record leaves the loop."""
    origin, path, key, number = record
    if number % _NUMBERS < step:
        return []
    copies = 2 if branches and number % 2 == 0 and len(path) <= _BRANCHES_MAX else 1
    return [(origin, (*path, copy), key, number - step) for copy in range(copies)]


def halved(record: Record) -> Record | None:
    """Return the record to feed back in the inner loop, or None if it leaves that loop."""
    origin, path, key, number = record
    return None if number % 2 or not number else (origin, path, key, number // 2)


class Turn(RecordedFunction, ProcessFunction[Record, Any]):
    """Process a turn of the loop."""

    def __init__(self, step: int, branches: bool) -> None:
        self.step = step
        self.branches = branches

    def process_element(self, value: Record, ctx: Any) -> Iterator[Any]:
        self.check_open()
        fed_back = turn(value, self.step, self.branches)
        for record in fed_back:
            yield FEEDBACK, record
        if not fed_back:
            yield value


class KeyedTurn(RecordedFunction, KeyedProcessFunction[int, Record, Any]):
    """Process a turn of the loop; a state counts the turns of each key."""

    def __init__(self, step: int, branches: bool) -> None:
        self.step = step
        self.branches = branches

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self.turns = runtime_context.get_state(ValueStateDescriptor("turns"))

    def process_element(self, value: Record, ctx: Any) -> Iterator[Any]:
        self.check_open()
        turns = (self.turns.value() or 0) + 1
        self.turns.update(turns)
        yield TURNS, ("", (), value[2], turns)
        fed_back = turn(value, self.step, self.branches)
        for record in fed_back:
            yield FEEDBACK, record
        if not fed_back:
            yield value


class Halve(RecordedFunction, ProcessFunction[Record, Any]):
    """Take one turn of an inner loop."""

    def process_element(self, value: Record, ctx: Any) -> Iterator[Any]:
        self.check_open()
        half = halved(value)
        if half is None:
            yield value
        else:
            yield INNER, half


def build_loop(node: Node, stream: Any) -> Any:
    """Build the loop of a node. Records that leave it are in the main output, turn counts by key in TURNS."""
    settings, shape = node.settings, node.settings["shape"]
    forward = settings["how"] == "forward"
    body_parallelism = node.parallelism if forward else max(1, node.parallelism - 1)
    head = stream.iterate().name(f"n{node.id} head").set_parallelism(node.parallelism)
    body = head
    if shape == "several":
        body = body.map(lambda record: record).set_parallelism(node.parallelism).rebalance()
        body = body.map(functions.Add(0)).set_parallelism(body_parallelism).disable_chaining()
    elif shape == "async":
        asks = functions.AddAsynchronously(0, fails_each=0)
        body = AsyncDataStream.unordered_wait(body, asks, 10_000, 2).set_parallelism(node.parallelism)
    elif shape == "nested":
        inner = body.iterate().name(f"n{node.id} inner head")
        body = inner.process(Halve()).set_parallelism(node.parallelism)
        inner.close_with(body.get_side_output(INNER))
    if shape == "plain":
        turned = body.process(Turn(settings["step"], settings["branches"]))
    else:
        turned = body.key_by(functions.key_of).process(KeyedTurn(settings["step"], settings["branches"]))
    turned = turned.name(f"n{node.id}").set_parallelism(body_parallelism)
    fed_back = turned.get_side_output(FEEDBACK)
    if settings["how"] == "hash":
        fed_back = fed_back.key_by(functions.key_of)
    elif settings["how"] == "custom":
        fed_back = fed_back.partition_custom(functions.PartitionByNumber(), functions.key_of)
    else:
        # Also name forward: otherwise it would be partitioned as the input is, by a broadcast for example.
        fed_back = getattr(fed_back, settings["how"])()
    head.close_with(fed_back)
    return turned


@dataclasses.dataclass(frozen=True)
class Turned:
    """The effect of a loop: the records that leave it, and the number of turns of each key."""

    records: list[Timed]
    turns: Counter[int]


def evaluate_loop(node: Node, records: list[Timed]) -> Turned:
    """Evaluate a loop turn by turn, in no particular order."""
    settings = node.settings
    copies = node.parallelism if settings["how"] == "broadcast" else 1
    left: list[Timed] = []
    turns: Counter[int] = Counter()
    waiting = list(records)
    while waiting:
        record, time = waiting.pop()
        if settings["shape"] == "nested":
            while (half := halved(record)) is not None:
                record = half
        turns[record[2]] += 1
        fed_back = turn(record, settings["step"], settings["branches"])
        waiting.extend((one, time) for one in fed_back for _ in range(copies))
        if not fed_back:
            left.append((record, time))
    return Turned(left, turns)
