"""The plain evaluation: the same program on lists, without any code of the runtime.

A stream is a list of parts, because its consumer may read several streams, each with its own partitioning. A part
states how much of it is known:

    records   the records with their timestamps; the order of the list has no meaning
    exact     whether these are all records: if not, only their number is known (`count`), or not even that (None)
    timed     whether the timestamps are known
    reread    how it differs in a run that reads records again, as AT_LEAST_ONCE allows after a failure: RereadEffect
    order     which of its records must arrive in order, unless the stream was mixed: the records of a "split", of a
              "split and key", or of a "spread" split in each subtask, if its records are spread over subtasks
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise

from penstock.common.constants import MAX_TIMESTAMP
from penstock.hosts.simulator import functions
from penstock.hosts.simulator.changing import changed_copies
from penstock.hosts.simulator.loops import evaluate_loop
from penstock.hosts.simulator.parts import SPLIT, SPLIT_AND_KEY, SPREAD, Part, RereadEffect
from penstock.hosts.simulator.programs import Node, Program, Record, Timed

Stream = list[Part]


@dataclasses.dataclass(frozen=True)
class Expected:
    """The expected output of each sink, and the input of each window operator, by node."""

    sinks: dict[int, Part]
    window_inputs: dict[int, Part]
    records: int
    """The number of records that all operators together emit, as far as known."""


def evaluate(program: Program) -> Expected:
    """Evaluate a program."""
    streams: dict[int, Stream] = {}
    for node in program.nodes:
        inputs = [streams[id] for id in node.inputs]
        if node.kind == "source":
            streams[node.id] = [_source(node)]
        elif node.kind == "union":
            streams[node.id] = [part for stream in inputs for part in stream]
        elif node.kind in ("partition", "key_by"):
            how = "hash" if node.kind == "key_by" else node.settings["how"]
            streams[node.id] = [dataclasses.replace(part, how=how) for part in inputs[0]]
        elif node.kind == "side":
            streams[node.id] = _side(program, node, streams)
        elif node.kind == "late":
            exact = program.exact_time or program.batched
            streams[node.id] = [Part([], exact=exact, parallelism=program.node(node.inputs[0]).parallelism)]
        elif node.kind == "loop":
            streams[node.id] = [_loop(node, _merged(inputs[0], node.parallelism, program.batched))]
        elif node.kind == "turns":
            before = program.node(node.inputs[0])
            into = [streams[id] for id in before.inputs]
            streams[node.id] = [_turns(before, _merged(into[0], before.parallelism, program.batched))]
        elif node.kind in _OF_TWO:
            if node.kind in _BY_TIME:
                # A join partitions its inputs by its own keys, however they were partitioned before.
                inputs = [[dataclasses.replace(part, how="hash") for part in stream] for stream in inputs]
            first, second = (_merged(stream, node.parallelism, program.batched) for stream in inputs)
            streams[node.id] = [_OF_TWO[node.kind](node, first, second)]
            if node.kind in _BY_TIME and not (program.exact_time or program.batched):
                streams[node.id] = [Part([], exact=False, parallelism=node.parallelism, reread=RereadEffect.UNKNOWN)]
        else:
            parts = [part for stream in inputs for part in stream]
            streams[node.id] = [_operator(program, node, _merged(parts, node.parallelism, program.batched))]
    windows = [node for node in program.nodes if node.kind == "window"]
    return Expected(
        {node.id: streams[node.id][0] for node in program.sinks},
        {node.id: _merged(streams[node.inputs[0]], node.parallelism, program.batched) for node in windows},
        sum(part.count or len(part.records) for stream in streams.values() for part in stream),
    )


def _part(records: list[Timed], parallelism: int, like: Part, order: str | None) -> Part:
    count = None if not like.exact else len(records)
    return Part(
        records,
        exact=like.exact,
        count=count,
        timed=like.timed,
        order=order,
        parallelism=parallelism,
        reread=like.reread,
    )


def _source(node: Node) -> Part:
    timed = node.settings.get("timed", True) or node.settings.get("assigner", False)
    records: list[Timed] = []
    for script in node.settings["splits"]:
        records.extend((record, timestamp if timed else None) for record, timestamp in script.records)
    return Part(records, count=len(records), order=SPLIT, parallelism=node.parallelism)


def _merged(stream: Stream, parallelism: int, batched: bool) -> Part:
    """Return the input of an operator of that parallelism."""
    parts = [_arriving(part, parallelism, batched) for part in stream]
    if len(parts) == 1:
        return parts[0]
    orders = {part.order for part in parts}
    origins = Counter(origin for part in parts for origin in {record[0] for record, _ in part.records})
    disjoint = all(count == 1 for count in origins.values())
    counts = [part.count for part in parts]
    return Part(
        [timed for part in parts for timed in part.records],
        exact=all(part.exact for part in parts),
        count=None if None in counts else sum(count for count in counts if count is not None),
        timed=all(part.timed for part in parts),
        order=orders.pop() if len(orders) == 1 and disjoint else None,
        parallelism=parallelism,
        reread=max(part.reread for part in parts),
    )


def _arriving(part: Part, parallelism: int, batched: bool) -> Part:
    copies = parallelism if part.how == "broadcast" else 1
    return dataclasses.replace(
        part,
        records=part.records * copies,
        count=None if part.count is None else part.count * copies,
        order=_order_after(part, parallelism, batched),
        how="forward",
        finals=part.finals if copies == 1 else None,
    )


def _order_after(part: Part, parallelism: int, batched: bool) -> str | None:
    """Repartitioning preserves order between one sender and one receiver, but not across several senders.

    In batched mode a keyed operator gets the records of a key by timestamp, which differs from the order of positions.
    """
    how = part.how
    if batched and how == "hash" and not (part.exact and all(time is None for _, time in part.records)):
        return None
    if how == "forward" and part.parallelism != parallelism:
        how = "rebalance"
    if how == "forward" or part.order is None or (how == "global_" and part.order != SPREAD):
        return part.order
    if part.order == SPREAD:
        return None
    if how in ("hash", "custom"):
        return SPLIT_AND_KEY
    return SPREAD if part.order == SPLIT else None


# Operators.


def _operator(program: Program, node: Node, input: Part) -> Part:
    if node.kind in _EACH:
        records = [(after, time) for record, time in input.records for after in _EACH[node.kind](node, record)]
        order = None if node.kind == "plain" or (node.kind == "rekey" and input.order == SPLIT_AND_KEY) else input.order
        if node.kind == "async_add":
            order = _order_after_calls(node, input, program.batched)
        same_count = node.kind in _ONE_FOR_ONE
        part = _part(records, node.parallelism, input, order)
        finals = input.finals if node.kind in ("lambda", "collect", "write") else None
        count = input.count if same_count else part.count if input.exact else None
        return dataclasses.replace(part, count=count, finals=finals, reread=_reread_effect(node, input.reread))
    if node.kind == "reduce":
        return _reduce(node, input, program.batched)
    reread = _reread_effect(node, input.reread)
    known = input.exact and (program.exact_time or program.batched)
    if not known or (not program.batched and _sessions_touch(node, input.records)):
        return Part([], exact=False, parallelism=node.parallelism, reread=reread)
    records = list(_KEYED[node.kind](node, input.records, program.batched))
    timed = input.timed or node.kind == "gather"
    return Part(records, count=len(records), timed=timed, parallelism=node.parallelism, reread=reread)


def _order_after_calls(node: Node, input: Part, batched: bool) -> str | None:
    """Return the order after asynchronous calls: a rescale deals calls in flight to all subtasks, before new input.

    So a split is spread afterwards. If it was spread before, the parts of several subtasks mix.
    """
    if batched:
        return input.order
    return SPREAD if node.settings["ordered"] and input.order == SPLIT else None


def _reread_effect(node: Node, input: RereadEffect) -> RereadEffect:
    """Return how an operator's output compares if input records are repeated."""
    kind = node.kind
    if kind in ("filter", "rekey", "flat_map", "split", "side"):
        # The result depends on the number, which may have grown.
        return input if input <= RereadEffect.MORE else RereadEffect.UNKNOWN
    if kind == "alarms":
        # The result depends only on key and time, and a timer that is registered twice fires once.
        return min(input, RereadEffect.MORE) if input < RereadEffect.UNKNOWN else input
    if kind == "window" and node.settings["windows"] == "session":
        # Records that are repeated after a session has fired may form a part of the session, with other bounds. Such a
        # part could merge two later sessions.
        return RereadEffect.GREATER if input is RereadEffect.REPEATED else RereadEffect.UNKNOWN
    if kind in ("gather", "window", "reduce"):
        return max(input, RereadEffect.GREATER)
    return input


def _exploding_split(record: Record) -> list[Record]:
    origin, path, key, number = record
    return [(origin, (*path, copy), key, number) for copy in range(2 - number % 2)]


_ONE_FOR_ONE = {
    "map",
    "lambda",
    "rekey",
    "plain",
    "raise",
    "assign",
    "collect",
    "write",
    "async_add",
    "read_and_change",
}
_EACH: dict[str, Callable[[Node, Record], Iterable[Record]]] = {
    "map": lambda node, record: [(*record[:3], record[3] + node.settings["amount"])],
    "async_add": lambda node, record: [(*record[:3], record[3] + node.settings["amount"])],
    "lambda": lambda node, record: [record],
    "assign": lambda node, record: [record],
    "emit_and_change": lambda node, record: changed_copies(record, node.settings["copies"]),
    "read_and_change": lambda node, record: [record],
    "collect": lambda node, record: [record],
    "write": lambda node, record: [record],
    "raise": lambda node, record: [record],
    "rekey": lambda node, record: [(*record[:2], record[3] % node.settings["keys"], record[3])],
    "plain": lambda node, record: [("", (), record[2], record[3])],
    "filter": lambda node, record: [record] if record[3] % node.settings["divisor"] else [],
    "flat_map": lambda node, record: functions.exploded(record, node.settings["most"]),
    "split": lambda node, record: _exploding_split(record),
    "echo": lambda node, record: [
        (record[0], (*record[1], copy), record[2], record[3]) for copy in range(node.settings["copies"])
    ],
}


# Operators of two streams.


def _connect(node: Node, first: Part, second: Part) -> Part:
    """Add the constant of its stream to each record, and repeat it as often as the settings say."""
    parts = []
    for part, amount in zip((first, second), node.settings["amounts"], strict=True):
        copies = range(node.settings["copies"]) if node.kind == "co_echo" else None
        records = [
            ((origin, path if copy is None else (*path, copy), key, number + amount), time)
            for (origin, path, key, number), time in part.records
            for copy in (copies if copies is not None else (None,))
        ]
        count = None if part.count is None else part.count * (1 if copies is None else len(copies))
        parts.append(dataclasses.replace(part, records=records, count=count, finals=None))
    # Not batched: the parts have already arrived in the order of the mode.
    return _merged(parts, node.parallelism, batched=False)


def _rules(node: Node, first: Part, second: Part) -> Part:
    reread = max(first.reread, second.reread, RereadEffect.GREATER)
    if not (first.exact and second.exact):
        return Part([], exact=False, parallelism=node.parallelism, reread=reread)
    rules = [number for _, _, _, number in {record for record, _ in second.records}]
    records: list[Timed] = [
        (functions.total_with_rules(key, [record[3] for record, _ in of_key], rules), MAX_TIMESTAMP)
        for key, of_key in _by_key(first.records).items()
    ]
    return Part(records, count=len(records), parallelism=node.parallelism, reread=reread)


def _interval_join(node: Node, first: Part, second: Part) -> Part:
    reread = max(first.reread, second.reread)
    if not (first.exact and second.exact):
        return Part([], exact=False, parallelism=node.parallelism, reread=reread)
    lower, upper = node.settings["lower_ms"], node.settings["upper_ms"]
    rights = _by_key(second.records)
    records: list[Timed] = [
        (functions.paired(left, right), max(left_time, right_time))
        for left, left_time in first.records
        for right, right_time in rights.get(left[2], ())
        if left_time is not None and right_time is not None and lower <= right_time - left_time <= upper
    ]
    return Part(records, count=len(records), parallelism=node.parallelism, reread=reread)


def _window_join(node: Node, first: Part, second: Part) -> Part:
    join, size = node.settings["how"] == "join", node.settings["size_ms"]
    reread = max(first.reread, second.reread, RereadEffect.REPEATED if join else RereadEffect.GREATER)
    if not (first.exact and second.exact):
        return Part([], exact=False, parallelism=node.parallelism, reread=reread)
    windows: dict[tuple[int, int], tuple[list[Record], list[Record]]] = defaultdict(lambda: ([], []))
    for index, part in enumerate((first, second)):
        for record, time in part.records:
            assert time is not None
            windows[record[2], time // size][index].append(record)
    records: list[Timed] = []
    for (_, number), (ones, others) in windows.items():
        pairs = [functions.paired(one, other) for one in ones for other in others]
        results = pairs if join else functions.co_grouped(ones, others)
        records.extend((result, (number + 1) * size - 1) for result in results)
    return Part(records, count=len(records), parallelism=node.parallelism, reread=reread)


def _loop(node: Node, input: Part) -> Part:
    """Return the records that leave a loop. The number of turns of a record depends on its number."""
    reread = input.reread if input.reread <= RereadEffect.MORE else RereadEffect.UNKNOWN
    if not input.exact:
        return Part([], exact=False, parallelism=node.parallelism, reread=reread)
    records = evaluate_loop(node, input.records).records
    return Part(records, count=len(records), timed=input.timed, parallelism=node.parallelism, reread=reread)


def _turns(node: Node, input: Part) -> Part:
    """Return the output of running turn counts."""
    reread = RereadEffect.GREATER if input.reread <= RereadEffect.MORE else RereadEffect.UNKNOWN
    if not input.exact or node.settings["shape"] == "plain":
        return Part([], exact=input.exact, parallelism=node.parallelism, reread=reread)
    turns = evaluate_loop(node, input.records).turns
    return Part([], exact=False, count=turns.total(), parallelism=node.parallelism, reread=reread, finals=dict(turns))


_BY_TIME = {"interval_join", "window_join"}
_OF_TWO: dict[str, Callable[[Node, Part, Part], Part]] = {
    "connect": _connect,
    "co_echo": _connect,
    "rules": _rules,
    "interval_join": _interval_join,
    "window_join": _window_join,
}


def _side(program: Program, node: Node, streams: dict[int, Stream]) -> Stream:
    """Return the side output of the split operator before."""
    split = program.node(node.inputs[0])
    input = _merged(streams[split.inputs[0]], split.parallelism, program.batched)
    records: list[Timed] = [
        ((origin, (*path, 0), key, number), time)
        for (origin, path, key, number), time in input.records
        if number % 3 == 0
    ]
    side = _part(records, split.parallelism, input, input.order)
    return [dataclasses.replace(side, reread=_reread_effect(node, input.reread))]


def _reduce(node: Node, input: Part, batched: bool) -> Part:
    if not input.exact:
        count = None if batched else input.count
        reread = _reread_effect(node, input.reread)
        return Part([], exact=False, count=count, timed=False, parallelism=node.parallelism, reread=reread)
    numbers = _by_key(input.records)
    combine: Callable[[Iterable[int]], int] = {"max": max, "min": min}.get(node.settings["how"], sum)
    finals = {key: combine(number for (_, _, _, number), _ in records) for key, records in numbers.items()}
    if batched:
        records: list[Timed] = [(("", (), key, number), None) for key, number in finals.items()]
        return Part(records, count=len(records), timed=False, parallelism=node.parallelism)
    grows = node.settings["how"] != "min"
    return Part(
        [],
        exact=False,
        count=len(input.records),
        timed=False,
        parallelism=node.parallelism,
        reread=_reread_effect(node, input.reread),
        finals=finals if grows else None,
    )


def _by_key(records: list[Timed]) -> dict[int, list[Timed]]:
    by_key: dict[int, list[Timed]] = defaultdict(list)
    for record, time in records:
        by_key[record[2]].append((record, time))
    return by_key


def _gather(node: Node, records: list[Timed], batched: bool) -> Iterable[Timed]:
    for key, of_key in _by_key(records).items():
        yield functions.total("all", key, (record[3] for record, _ in of_key)), MAX_TIMESTAMP


def _alarms(node: Node, records: list[Timed], batched: bool) -> Iterable[Timed]:
    past = node.settings["past"]
    for key, of_key in _by_key(records).items():
        due = {functions.first_alarm(time, node.settings["delay_ms"]) for _, time in of_key if time is not None}
        fired: set[int] = set()
        while due:
            time = due.pop()
            fired.add(time)
            if batched:
                # A timer can't register another: see KeyedOperator.end_key.
                continue
            due.update(after for after in functions.next_alarms(time, past) if after not in fired)
        for time in fired:
            for copy in range(node.settings["copies"]):
                yield ("alarm", (time, copy), key, time), time


def _windows(node: Node, records: list[Timed], batched: bool) -> Iterable[Timed]:
    settings = node.settings
    for key, of_key in _by_key(records).items():
        contents: dict[tuple[int, int], list[int]] = defaultdict(list)
        if settings["windows"] == "session":
            contents = _sessions(of_key, settings["size_ms"])
        else:
            size, slide = settings["size_ms"], settings.get("slide_ms") or settings["size_ms"]
            if settings["windows"] == "tumbling":
                slide = size
            for record, time in of_key:
                assert time is not None
                for window in _windows_of(time, size, slide, settings["windows"] == "cumulative"):
                    contents[window].append(record[3])
        for (start, end), of_window in contents.items():
            numbers = [number for number in of_window if number % 3] if settings.get("evicts") else of_window
            if settings["how"] == "reduce":
                # A single record is emitted unreduced.
                yield ("", (), key, sum(numbers)), end - 1
                continue
            name, path, _, number = functions.total("window", key, numbers)
            bounds = (start, end) if settings["how"] == "process" else ()
            yield (name, (*path, *bounds), key, number), end - 1


def _windows_of(time: int, size: int, slide: int, are_cumulative: bool) -> Iterable[tuple[int, int]]:
    """Return start and end of the windows that contain a time."""
    if are_cumulative:
        start = time - time % size
        return [(start, end) for end in range(start + slide, start + size + 1, slide) if end > time]
    return [(start, start + size) for start in range(time - time % slide, time - size, -slide)]


def _sessions_touch(node: Node, records: list[Timed]) -> bool:
    """Return whether a session ends where another starts: event time may stop in between, or not, so they may merge."""
    if node.kind != "window" or node.settings["windows"] != "session":
        return False
    for of_key in _by_key(records).values():
        times = sorted({time for _, time in of_key if time is not None})
        if any(after - before == node.settings["size_ms"] for before, after in pairwise(times)):
            return True
    return False


def _sessions(records: list[Timed], gap: int) -> dict[tuple[int, int], list[int]]:
    sessions: dict[tuple[int, int], list[int]] = {}
    for time, number in sorted((time, record[3]) for record, time in records if time is not None):
        last = next(reversed(sessions), None)
        if last is not None and time <= last[1]:
            sessions[last[0], time + gap] = [*sessions.pop(last), number]
        else:
            sessions[time, time + gap] = [number]
    return sessions


_KEYED: dict[str, Callable[[Node, list[Timed], bool], Iterable[Timed]]] = {
    "gather": _gather,
    "alarms": _alarms,
    "window": _windows,
}
