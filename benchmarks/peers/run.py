"""`make bench-peers`: compares penstock with PyFlink, Flink in Java and PySpark, on the same four jobs.

Every variant of every peer is measured once. Each peer's best variant is then repeated until there is the requested
number of runs, and the median is reported.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.cases import FIGURES, PEERS, Case, all_cases
from benchmarks.peers.environments import ROOT, Environments, prepare
from benchmarks.peers.measuring import FailedError, measure
from benchmarks.peers.report import Result, best_of, groups, print_report
from benchmarks.yardstick import records_per_s


def main() -> None:
    """Run the measurements."""
    parser = argparse.ArgumentParser(description="penstock and its peers, side by side")
    parser.add_argument("--quick", action="store_true", help="one run, short ones, two rates: to see that all works")
    parser.add_argument("--only", default="", metavar="LIST", help=f"some of {', '.join((*PEERS, *FIGURES))}")
    parser.add_argument("--runs", type=int, default=3, help="of each peer's best variant (default: 3)")
    parser.add_argument("--warm-up", type=float, default=5, metavar="SECONDS", help="after the first record")
    parser.add_argument("--seconds", type=float, default=8, help="how long to measure after that")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "bench-peers.json", metavar="FILE")
    arguments = parser.parse_args()
    cases = _chosen(parser, arguments.only, arguments.quick)
    if arguments.quick:
        arguments.runs, arguments.seconds = 1, min(arguments.seconds, 6)
    # The default action of SIGTERM would end this program immediately and leave the current job running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    environments = prepare(sorted({case.peer for case in cases}))
    yardstick = [records_per_s()]
    results = _measure_all(cases, environments, arguments)
    yardstick.append(records_per_s())
    missing = {peer: reason for peer, reason in environments.missing.items() if any(c.peer == peer for c in cases)}
    print_report(results, yardstick, missing)
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    document = {"yardstick": yardstick, **machine, "missing": missing, "results": [r.as_dict() for r in results]}
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"\nAs JSON: {arguments.json}")


def _chosen(parser: argparse.ArgumentParser, only: str, quick: bool) -> list[Case]:
    names = {name.strip() for name in only.split(",") if name.strip()}
    if unknown := names - {*PEERS, *FIGURES}:
        parser.error(f"--only: {', '.join(sorted(unknown))} is none of {', '.join((*PEERS, *FIGURES))}")
    peers = names & set(PEERS) or set(PEERS)
    figures = names & set(FIGURES) or set(FIGURES)
    rates = {0, 1_000, 20_000} if quick else None
    return [c for c in all_cases() if c.peer in peers and c.figure in figures and (rates is None or c.rate in rates)]


def _measure_all(cases: Sequence[Case], environments: Environments, arguments: argparse.Namespace) -> list[Result]:
    results = [Result(case) for case in cases if case.peer not in environments.missing and _can_run(case, environments)]
    for result in results:
        _measure(result, environments, arguments)
    for run in range(1, arguments.runs):
        for peers in groups(results).values():
            for of_peer in peers.values():
                best = best_of([result for result in of_peer if len(result.runs) == run or run == 1])
                if best is not None:
                    _measure(best, environments, arguments)
    return results


def _can_run(case: Case, environments: Environments) -> bool:
    # Without the jar there is no source for PyFlink with a rate.
    return not (case.peer == "pyflink" and case.rate and environments.jar is None)


def _measure(result: Result, environments: Environments, arguments: argparse.Namespace) -> None:
    case = result.case
    warm_up, seconds = max(arguments.warm_up, case.warm_up), max(arguments.seconds, case.seconds)
    load = os.getloadavg()[0]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="peers-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        command = case.command(environments, directory)
        try:
            run = measure(command, directory, environments.variables_of(case.peer), warm_up, seconds)
        except FailedError as error:
            result.error = str(error)
            print(f"{case.title}: {result.error.splitlines()[0]}", flush=True)
            return
    result.runs.append({**run, "load_before": load})
    age = f", p50 {run['p50_ms']} ms, p99 {run['p99_ms']} ms" if "p50_ms" in run else ""
    took = time.monotonic() - began
    print(f"{case.title}: {run['records_per_s']:,.0f} records/s{age}   ({took:.0f} s, load {load:.0f})", flush=True)


if __name__ == "__main__":
    main()
