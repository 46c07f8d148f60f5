"""One fault of each kind that this machine permits, and the checkers themselves. Hundreds: `make chaos`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.chaos import checkers, network, store
from tests.chaos.plan import Kind, Plan, RunPlan, draw, one_of_each, possible
from tests.chaos.program import expected
from tests.chaos.run import Run

HALVES = {
    ("hashmap", True): [
        Kind.JVM_KILLED,
        Kind.WORKER_STOPPED,
        Kind.NETWORK_CUT,
        Kind.DISK_FULL,
        Kind.STORE_FAILS,
        Kind.DRIVER_STOPPED,
        Kind.RECORD_FLIPPED,
        Kind.WORKER_KILLED,
    ],
    ("rocksdb", False): [
        Kind.DAEMON_KILLED,
        Kind.STORE_HANGS,
        Kind.NETWORK_SLOW,
        Kind.JVM_STOPPED,
        Kind.CONNECTIONS_CUT,
        Kind.STATE_FLIPPED,
        Kind.POWER_LOST,
        Kind.WORKER_KILLED,
    ],
}
"""By backend, and whether exactly once. A flipped record kills the driver, too. Executors that are killed are in
test_kills.py, drivers that are taken over in test_two_runs.py."""


@pytest.mark.e2e
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_one_fault_of_each_kind(tmp_path: Path) -> None:
    """Output would be lost or doubled, or the job stand still, when a process dies, a disk is full or a bit flips."""
    has_disk, has_network = store.is_possible(tmp_path / "trial"), network.is_possible()

    def carry_out(half: tuple[str, bool]) -> None:
        permitted = [kind for kind in HALVES[half] if kind in possible(has_disk, has_network)]
        plan = RunPlan(0, *half, is_cluster=False, faults=one_of_each(permitted, seed=1))
        said: list[str] = []
        report = Run(plan, tmp_path / half[0], has_disk, has_network, said.append).carry_out()
        assert not report.findings, "\n".join(said)
        assert [struck.fault.kind for struck in report.struck] == permitted, said
        # Some may come too late.
        assert sum(struck.hit for struck in report.struck) > len(permitted) // 2, said

    # Side by side: most of the time both wait.
    with ThreadPoolExecutor() as both:
        list(both.map(carry_out, HALVES))


def test_a_plan_is_what_its_seed_says() -> None:
    """A finding could not be looked at again."""
    plans = [draw(7, 60, ("hashmap", "rocksdb"), (True, False), set(Kind)) for _ in range(2)]
    assert plans[0] == plans[1] and plans[0].faults == 60
    assert {(run.backend, run.exactly_once) for run in plans[0].runs} == {
        (backend, guarantee) for backend in ("hashmap", "rocksdb") for guarantee in (True, False)
    }
    few = draw(7, 60, ("hashmap",), (True,), {Kind.WORKER_KILLED})
    assert isinstance(few, Plan) and {fault.kind for run in few.runs for fault in run.faults} == {Kind.WORKER_KILLED}


def test_what_is_lost_or_doubled_is_found() -> None:
    """Five hundred faults would show nothing, whatever came of them."""
    lines = list(expected(400).elements())
    assert not checkers.output(lines, 400, exactly_once=True)
    assert checkers.output(lines[1:], 400, exactly_once=True) == ["lost 1: ['raw,0']"]
    assert checkers.output([*lines, "raw,3"], 400, exactly_once=True) == ["doubled 1: ['raw,3']"]
    assert not checkers.output([*lines, "raw,3"], 400, exactly_once=False)
    total = next(line for line in lines if line.startswith("sum,"))
    place, _, number = total.rpartition(",")
    others = [line for line in lines if line != total]
    assert not checkers.output([*others, f"{place},{int(number) + 1}"], 400, exactly_once=False)
    assert checkers.output([*others, f"{place},{int(number) - 1}"], 400, exactly_once=False) == [f"lost 1: ['{total}']"]
