"""Faults from outside, by a seed, on a plan that can be run again. Is anything lost, doubled, stuck or left?

    python -m tests.chaos --seed 1 --faults 500
    python -m tests.chaos --plan plan.json
    python -m tests.chaos --count DIRECTORY DIRECTORY

What this machine does not permit is not drawn: a disk and a network of a run's own need root. See
docs/internals/what-looks-found.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from tests.chaos import network, store
from tests.chaos.plan import Kind, Plan, RunPlan, draw, possible
from tests.chaos.report import RunReport, table, totals
from tests.chaos.run import Run

REPORT = "report.json"
BACKENDS = ("hashmap", "rocksdb")


def main() -> int:
    """Run a plan. Returns 1 if something was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=500)
    parser.add_argument("--backend", choices=BACKENDS)
    parser.add_argument("--guarantee", choices=["exactly-once", "at-least-once"])
    parser.add_argument("--kinds", help="names of Kind, with commas between them; default: all that are possible")
    parser.add_argument("--plan", type=Path, help="run this one again")
    parser.add_argument("--runs", help="of the plan only these, by their numbers, with commas between them")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no run after that time")
    parser.add_argument("--keep", type=Path, help="a directory for logs, the plan and the report; default: a new one")
    parser.add_argument("--count", type=Path, nargs="+", help="only count what is in the directories of earlier ones")
    arguments = parser.parse_args()
    if arguments.count:
        return _counted([report for folder in arguments.count for report in _reports(folder)])
    keep = arguments.keep or Path(tempfile.mkdtemp(prefix="chaos-"))
    keep.mkdir(parents=True, exist_ok=True)
    has_disk, has_network = store.is_possible(keep / "trial"), network.is_possible()
    plan = _plan(arguments, has_disk, has_network)
    (keep / "plan.json").write_bytes(msgspec.json.format(msgspec.json.encode(plan)))
    print(f"seed {plan.seed}: {plan.faults} faults in {len(plan.runs)} runs. Plan, logs and report: {keep}", flush=True)
    numbers = {int(number) for number in arguments.runs.split(",")} if arguments.runs else None
    reports: list[RunReport] = []
    began = time.monotonic()
    for run in plan.runs:
        if time.monotonic() - began > arguments.minutes * 60 or (numbers is not None and run.number not in numbers):
            continue
        guarantee = "exactly once" if run.exactly_once else "at least once"
        print(f"run {run.number}: {run.backend}, {guarantee}{', local-cluster' * run.is_cluster}", flush=True)
        reports.append(_carry_out(run, keep, has_disk, has_network))
        (keep / REPORT).write_bytes(msgspec.json.encode(reports))
        print(totals(reports), flush=True)
    return _counted(reports)


def _reports(folder: Path) -> list[RunReport]:
    return msgspec.json.decode((folder / REPORT).read_bytes(), type=list[RunReport])


def _counted(reports: list[RunReport]) -> int:
    print(table(reports))
    return int(any(report.findings for report in reports))


def _plan(arguments: argparse.Namespace, has_disk: bool, has_network: bool) -> Plan:
    if arguments.plan is not None:
        return msgspec.json.decode(arguments.plan.read_bytes(), type=Plan)
    kinds = possible(has_disk, has_network)
    if arguments.kinds:
        kinds &= {Kind[name.strip().upper()] for name in arguments.kinds.split(",")}
    backends = [arguments.backend] if arguments.backend else BACKENDS
    guarantees = [arguments.guarantee == "exactly-once"] if arguments.guarantee else [True, False]
    return draw(arguments.seed, arguments.faults, backends, guarantees, kinds)


def _carry_out(run: RunPlan, keep: Path, has_disk: bool, has_network: bool) -> RunReport:
    return Run(run, keep / f"run-{run.number}", has_disk, has_network, _say).carry_out()


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}{text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
