"""Loops of generated programs: how they are built, what their functions do, and the plain evaluation of it.

A record goes round until its number, modulo 64, is small. Each turn is counted, in keyed state if the loop is keyed.
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
from penstock.hosts.simulator.lifecycles import Followed
from penstock.hosts.simulator.programs import Node, Record, Timed

AGAIN: OutputTag[Record] = OutputTag("again")
INNER: OutputTag[Record] = OutputTag("inner")
TURNS: OutputTag[Record] = OutputTag("turns")
SHAPES = ("plain", "keyed", "several", "asking", "nested")
_BRANCHES_MAX = 3
_NUMBERS = 64


def turn(record: Record, step: int, branches: bool) -> list[Record]:
    """What goes round again; nothing: the record leaves the loop."""
    origin, path, key, number = record
    if number % _NUMBERS < step:
        return []
    copies = 2 if branches and number % 2 == 0 and len(path) <= _BRANCHES_MAX else 1
    return [(origin, (*path, copy), key, number - step) for copy in range(copies)]


def halved(record: Record) -> Record | None:
    """What goes round in the inner loop again; None: it leaves that loop."""
    origin, path, key, number = record
    return None if number % 2 or not number else (origin, path, key, number // 2)


class Turn(Followed, ProcessFunction[Record, Any]):
    """One turn of the loop."""

    def __init__(self, step: int, branches: bool) -> None:
        self.step = step
        self.branches = branches

    def process_element(self, value: Record, ctx: Any) -> Iterator[Any]:
        self.check_open()
        again = turn(value, self.step, self.branches)
        for record in again:
            yield AGAIN, record
        if not again:
            yield value


class KeyedTurn(Followed, KeyedProcessFunction[int, Record, Any]):
    """The same with a state that counts the turns of a key."""

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
        again = turn(value, self.step, self.branches)
        for record in again:
            yield AGAIN, record
        if not again:
            yield value


class Halve(Followed, ProcessFunction[Record, Any]):
    """One turn of an inner loop."""

    def process_element(self, value: Record, ctx: Any) -> Iterator[Any]:
        self.check_open()
        half = halved(value)
        if half is None:
            yield value
        else:
            yield INNER, half


def build_loop(node: Node, stream: Any) -> Any:
    """The loop of a node: its main output has what has left it, its side output TURNS the turns by key."""
    settings, shape = node.settings, node.settings["shape"]
    forward = settings["how"] == "forward"
    body_parallelism = node.parallelism if forward else max(1, node.parallelism - 1)
    head = stream.iterate().name(f"n{node.id} head").set_parallelism(node.parallelism)
    body = head
    if shape == "several":
        body = body.map(lambda record: record).set_parallelism(node.parallelism).rebalance()
        body = body.map(functions.Add(0)).set_parallelism(body_parallelism).disable_chaining()
    elif shape == "asking":
        asks = functions.AskForMore(0, fails_each=0)
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
    again = turned.get_side_output(AGAIN)
    if settings["how"] == "hash":
        again = again.key_by(functions.key_of)
    elif settings["how"] == "custom":
        again = again.partition_custom(functions.PartitionByNumber(), functions.key_of)
    else:
        # Forward, too: without a word it would be partitioned as the input is, by a broadcast for example.
        again = getattr(again, settings["how"])()
    head.close_with(again)
    return turned


@dataclasses.dataclass(frozen=True)
class Turned:
    """What a loop does: the records that leave it, and the number of turns of each key."""

    records: list[Timed]
    turns: Counter[int]


def evaluate_loop(node: Node, records: list[Timed]) -> Turned:
    """Turn by turn, without an order."""
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
        again = turn(record, settings["step"], settings["branches"])
        waiting.extend((one, time) for one in again for _ in range(copies))
        if not again:
            left.append((record, time))
    return Turned(left, turns)
