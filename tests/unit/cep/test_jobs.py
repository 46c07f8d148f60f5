"""Recorded patterns through whole jobs, with exchanges, in both modes: results are those of the automaton alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.table.in_process import InProcess
from tests.unit.cep.played import TIMED_OUT, Shown, keyed_pattern
from tests.unit.cep.recorded import Event, cases
from tests.unit.cep.test_recorded import play
from tests.unit.datastream.simulated import Simulated

from penstock.cep import CEP
from penstock.common import WatermarkStrategy
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

EVERY_OF_FLINK, EVERY_RANDOM = 11, 23
"""Parts of the cases that run in jobs: a job takes ten to thirty milliseconds."""


def sample() -> list[dict[str, Any]]:
    """Cases whose events come in order of time."""
    flinks = [case for case in cases("cases.jsonl.gz") if case["kind"] == "nfa" and "error" not in case]
    chosen = flinks[::EVERY_OF_FLINK] + cases("random.jsonl.gz")[::EVERY_RANDOM]
    return [case for case in chosen if [e[3] for e in case["events"]] == sorted(e[3] for e in case["events"])]


def found_by_job(case: dict[str, Any], mode: RuntimeExecutionMode, filters: bool) -> Counter[Any]:
    """Run a job with three keys that have the same events, and return the results of each key, which must agree."""
    executor = InProcess() if mode is RuntimeExecutionMode.STREAMING else Simulated()
    env = StreamExecutionEnvironment(executor=executor)
    env.set_runtime_mode(mode)
    env.set_parallelism(2)
    rows = [
        (key, Event(label, name, price, *volume), time)
        for label, name, price, time, *volume in case["events"]
        for key in ("k", "l", "m")
    ]
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row[2])
    stream = env.from_collection(rows).set_parallelism(1).assign_timestamps_and_watermarks(strategy).set_parallelism(1)
    found = CEP.pattern(stream.key_by(lambda row: row[0]), keyed_pattern(case))
    if not filters:
        found.without_filter()
    results = found.process(Shown())
    shown = results.union(results.get_side_output(TIMED_OUT)).map(lambda result: result)
    with shown.execute_and_collect() as collected:
        counts = Counter((kind, events, time if kind == "timeout" else None) for kind, events, time in collected)
    assert all(count % 3 == 0 for count in counts.values())
    return Counter({result: count // 3 for result, count in counts.items()})


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
def test_jobs_find_what_the_automaton_finds(mode: RuntimeExecutionMode) -> None:
    """An exchange, the order of a mode, or the filter before the exchange would change the matches."""
    chosen = sample()
    for number, case in enumerate(chosen):
        key, _ = play(case)
        key.time(2**63 - 1)
        wanted = Counter((kind, events, at if kind == "timeout" else None) for kind, events, at in key.results)
        assert found_by_job(case, mode, filters=number % 2 == 0) == wanted, case["name"]
    assert len(chosen) > 30
