"""What came of a plan: counts by kind and moment, times to recover, findings."""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import median

import msgspec
from tests.chaos.plan import Fault, RunPlan


class Struck(msgspec.Struct):
    """A fault, and what came of it."""

    fault: Fault
    hit: bool
    """Whether its moment came, and there was something to hit."""
    recovered_s: float = 0.0
    """Until output was committed again, or the job had ended."""


class RunReport(msgspec.Struct):
    """One run."""

    plan: RunPlan
    struck: list[Struck] = []
    findings: list[str] = []
    savepoints_read: int = 0
    starts: int = 0
    former_ended_s: list[float] = []
    """How long drivers whose job was taken over took to end, from when they went on."""
    seconds: float = 0.0


def totals(reports: list[RunReport]) -> str:
    """What has happened so far, in one line."""
    struck = [one for report in reports for one in report.struck]
    hit = sum(one.hit for one in struck)
    savepoints = sum(report.savepoints_read for report in reports)
    found = sum(len(report.findings) for report in reports)
    former_s = [seconds for report in reports for seconds in report.former_ended_s]
    former = f"{len(former_s)} former runs ended in {max(former_s):.0f} s at most; " if former_s else ""
    return (
        f"{hit} faults in {len(reports)} runs, {len(struck) - hit} without effect; {savepoints} savepoints read; "
        f"{former}{found} findings"
    )


def table(reports: list[RunReport]) -> str:
    """All of it, for people."""
    times: dict[str, list[float]] = defaultdict(list)
    moments: Counter[str] = Counter()
    for report in reports:
        for struck in report.struck:
            if struck.hit:
                times[struck.fault.kind.value].append(struck.recovered_s)
                moments[struck.fault.moment.value] += 1
    lines = ["| fault | times | recovered in s: median | most |", "| --- | ---: | ---: | ---: |"]
    for kind, seconds in sorted(times.items()):
        lines.append(f"| {kind} | {len(seconds)} | {median(seconds):.1f} | {max(seconds):.1f} |")
    lines += ["", "| moment | times |", "| --- | ---: |"]
    lines += [f"| {moment} | {count} |" for moment, count in sorted(moments.items())]
    by_run: Counter[str] = Counter()
    for report in reports:
        guarantee = "exactly once" if report.plan.exactly_once else "at least once"
        where = ", local cluster" * report.plan.is_cluster
        by_run[f"{report.plan.backend}, {guarantee}{where}"] += sum(one.hit for one in report.struck)
    lines += ["", "; ".join(f"{what}: {count}" for what, count in sorted(by_run.items()))]
    lines.append(totals(reports))
    findings = [f"run {report.plan.number}: {finding}" for report in reports for finding in report.findings]
    lines += ["", *(findings or ["nothing lost, nothing doubled, nothing stuck, nothing left"])]
    return "\n".join(lines)
