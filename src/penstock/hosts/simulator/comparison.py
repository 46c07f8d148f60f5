"""Compares the output of sinks with the plain evaluation."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import zip_longest
from typing import Any

from penstock.hosts.simulator.evaluation import evaluate
from penstock.hosts.simulator.functions import COUNT_WEIGHT
from penstock.hosts.simulator.parts import SPLIT_AND_KEY, SPREAD, Part, RereadEffect
from penstock.hosts.simulator.programs import Node, Program, Timed


def compare(
    program: Program, results: dict[int, dict[int, list[Any]]], repeated: bool = False, redistributed: bool = False
) -> None:
    """Raise AssertionError if the output of a sink differs from the plain evaluation.

    `repeated`: sources may have reread records, as AT_LEAST_ONCE allows: then nothing may be missing or lower.
    `redistributed`: records in flight may have moved to other subtasks. A split that is spread over all subtasks then
    has no order: a record may arrive at a subtask after a later one of its split. With hash or forward partitioning
    the order holds, since both arrive by one channel.
    """
    expected = evaluate(program)
    for node in program.sinks:
        part, of_subtask = expected.sinks[node.id], results.get(node.id, {})
        if node.kind == "collect":
            of_subtask = {subtask: [(value, None) for value in values] for subtask, values in of_subtask.items()}
        seen = [value for values in of_subtask.values() for value in values]
        if repeated:
            # The order is not compared: repeated records arrive later.
            _compare_repeated(node, seen, part)
            continue
        if part.exact:
            with_time = part.timed and node.kind == "write"
            _compare_contents(f"sink n{node.id}", seen, part.records, with_time)
        elif part.count is not None:
            assert len(seen) == part.count, f"sink n{node.id} saw {len(seen)} records, expected {part.count}"
        if part.finals is not None:
            _compare_finals(f"sink n{node.id}", seen, part.finals)
        if part.order is not None and not (redistributed and part.order == SPREAD):
            for subtask, values in of_subtask.items():
                _check_order(f"sink n{node.id}, subtask {subtask}", values, part)
    for id, part in expected.window_inputs.items():
        settings = program.node(id).settings
        if part.exact and settings["windows"] not in ("sliding", "cumulative") and "evicts" not in settings:
            _check_accounted(program=program, window=id, part=part, results=results, repeated=repeated)


def _compare_repeated(node: Node, seen: list[Timed], part: Part) -> None:
    sink = f"sink n{node.id}, records read again"
    if part.reread is RereadEffect.UNKNOWN:
        return
    if part.count is not None:
        assert len(seen) >= part.count, f"{sink}: {len(seen)} records, expected at least {part.count}"
    if part.exact and part.reread is RereadEffect.GREATER:
        _compare_numbers(sink, seen, part.records, with_time=part.timed and node.kind == "write")
    elif part.exact:
        _compare_contents(
            sink=sink,
            seen=seen,
            expected=part.records,
            with_time=part.timed and node.kind == "write",
            reread=part.reread,
        )
    if part.finals is not None:
        greatest = _greatest(seen)
        less = {key: number for key, number in part.finals.items() if greatest.get(key, -1) < number}
        assert not less, f"{sink}: the running values end at {greatest}, expected at least {less}"


def _compare_numbers(sink: str, seen: list[Timed], expected: list[Timed], with_time: bool) -> None:
    """Check that each expected record has a distinct counterpart whose number is not lower."""
    got, required = _numbers(seen, with_time), _numbers(expected, with_time)
    for where, numbers in required.items():
        # Pair them in descending order: if any assignment works, this one does.
        pairs = zip_longest(numbers, got[where][: len(numbers)], fillvalue=-1)
        assert all(number <= found for number, found in pairs), f"{sink}: {got[where]} of {where}, at least {numbers}"


def _numbers(records: list[Timed], with_time: bool) -> dict[Any, list[int]]:
    """Group the numbers of records by all other fields, in descending order."""
    numbers: dict[Any, list[int]] = defaultdict(list)
    for (origin, path, key, number), time in records:
        numbers[origin, path, key, time if with_time else None].append(number)
    return defaultdict(list, {where: sorted(of_one, reverse=True) for where, of_one in numbers.items()})


def _check_accounted(
    program: Program, window: int, part: Part, results: dict[int, dict[int, list[Any]]], repeated: bool
) -> None:
    """Check that each record is in a window or late, once, if sinks directly follow both outputs.

    Allow repetition if `repeated`, and in sessions that are retained after they fire: a session that starts at the end
    of one may merge with it, and fire again with all of its records.
    """
    if repeated and part.reread is RereadEffect.UNKNOWN:
        return
    settings = program.node(window).settings
    at_least = repeated or (settings["windows"] == "session" and settings["lateness_ms"] > 0)
    late = {node.id for node in program.nodes if node.kind == "late" and node.inputs == (window,)}
    sinks = {node.inputs[0]: node.id for node in program.sinks if node.kind == "collect"}
    if window not in sinks or not late & sinks.keys():
        return
    weight = 0 if settings["how"] == "reduce" else COUNT_WEIGHT
    in_windows = sum(record[3] for values in results.get(sinks[window], {}).values() for record in values)
    records = [r for id in late & sinks.keys() for values in results.get(sinks[id], {}).values() for r in values]
    were_late = sum(record[3] + weight for record in records)
    came = sum(record[3] + weight for record, _ in part.records)
    right = in_windows + were_late >= came if at_least else in_windows + were_late == came
    assert right, f"n{window}: {came} came in, {in_windows} in windows, {were_late} late"


def _compare_contents(
    sink: str, seen: list[Timed], expected: list[Timed], with_time: bool, reread: RereadEffect | None = None
) -> None:
    got = Counter(seen if with_time else [record for record, _ in seen])
    required = Counter(expected if with_time else [record for record, _ in expected])
    missing, surplus = required - got, got - required
    if reread is RereadEffect.REPEATED:
        surplus = Counter({record: count for record, count in surplus.items() if record not in required})
    elif reread is RereadEffect.MORE:
        surplus.clear()
    assert not missing and not surplus, (
        f"{sink} saw {len(seen)} records, expected {len(expected)}; missing {_shown(missing)}, "
        f"surplus {_shown(surplus)}"
    )


def _shown(records: Counter[Any]) -> str:
    return f"{sum(records.values())} {list(records.items())[:4]}"


def _compare_finals(sink: str, seen: list[Timed], finals: dict[int, int]) -> None:
    greatest = _greatest(seen)
    assert greatest == finals, f"{sink}: the running values end at {greatest}, expected {finals}"


def _check_order(sink: str, values: list[Timed], part: Part) -> None:
    """Check that records of one split (and key) arrive in the order in which they were read."""
    last: dict[Any, tuple[int, ...]] = {}
    for (origin, path, key, _), _ in values:
        where = (origin, key) if part.order == SPLIT_AND_KEY else origin
        before = last.get(where)
        # Only after a union can a record occur twice, and its order is then undefined.
        assert before is None or before < path, f"{sink}: {path} of {where} came after {before} ({part.order})"
        last[where] = path


def _greatest(seen: list[Timed]) -> dict[int, int]:
    """Return the greatest number of each key."""
    greatest: dict[int, int] = {}
    for (_, _, key, number), _ in seen:
        greatest[key] = max(number, greatest.get(key, number))
    return greatest
