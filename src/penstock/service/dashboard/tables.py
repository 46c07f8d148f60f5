"""The tables of the pages: jobs, subtasks, checkpoints, latency, failures, state. From the JSON of REST to markup."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from penstock.common.text.markup import Markup, element, joined, table
from penstock.common.text.quantities import as_duration, as_event_time, as_moment, as_rate, as_size
from penstock.common.time.wall_clock import now_ms
from penstock.service.dashboard.charts import as_short_duration
from penstock.service.dashboard.graph_drawing import lag_class
from penstock.service.dashboard.job_figures import SubtaskFigures, VertexFigures

_CHECKPOINTS_MAX = 10
_VALUE_MAX = 2_000
"""Most characters of a key or a value of state."""


def clusters_table(clusters: Sequence[dict[str, Any]]) -> Markup:
    """Show the slots of each cluster, how many of them these jobs hold, and the outcomes of its jobs.

    `where`: its URL.
    """
    if not clusters:
        return Markup()
    rows = []
    for one in clusters:
        total = one["slots-total"]
        held = total - one["slots-available"]
        rows.append(
            [
                one["where"],
                joined(f"{held} of {total} ", _bar(held / total if total else 0.0, "bar-rate")),
                *(f"{one[f'jobs-{kind}']:,}" for kind in ("running", "finished", "cancelled", "failed")),
            ]
        )
    return table(["cluster", "slots held", "jobs", "finished", "cancelled", "failed"], rows, numbers=range(2, 6))


def jobs_table(jobs: Sequence[dict[str, Any]]) -> Markup:
    """Show the jobs of `/jobs/overview`, running ones first.

    `where`: the endpoint; `note`: shown below the name; `history`: the answer to `/jobs/:id/history`, if there is one.
    """
    if not jobs:
        return element("p", "No job runs. ", element("code", "penstock run job.py"), " starts one.", cls="nothing")
    ordered = sorted(jobs, key=lambda job: (job["end-time"] >= 0, -job["start-time"]))
    rows = [
        [
            joined(
                element("a", job["name"], href=f"/job/{job['jid']}"),
                element("div", job.get("waiting") or job.get("note") or "", cls="faint"),
            ),
            joined(
                state_of(job["state"]),
                element(
                    "div", f"{'after' if job['end-time'] >= 0 else 'for'} {as_duration(job['duration'])}", cls="faint"
                ),
            ),
            *_figures_of(job.get("history")),
            _running_tasks(job),
            as_moment(job["start-time"]),
            element("code", job["jid"][:8]),
            job["where"],
        ]
        for job in ordered
    ]
    heads = [
        "job",
        "state",
        "records in",
        "records out",
        "event time",
        "restarts",
        "last checkpoint",
        "tasks running",
        "started",
        "id",
        "endpoint",
    ]
    return table(heads, rows, numbers=(2, 3, 4, 5, 7), is_stacked=True)


def _figures_of(history: dict[str, Any] | None) -> list[str]:
    """Return the cells for rates, event time, restarts and the last checkpoint."""
    if history is None:
        return ["–"] * 5
    now, checkpoint = history["now"], history["last-checkpoint"]
    event_time = "–" if now["watermark"] is None else _event_time(now["timestamp"] - now["watermark"])
    rates = [as_rate(now[f"records-{way}-per-second"]) for way in ("in", "out")]
    return [*rates, event_time, f"{now['restarts']:,}", _last_checkpoint(checkpoint, now["timestamp"])]


def _last_checkpoint(checkpoint: dict[str, Any] | None, at_ms: int) -> str:
    if checkpoint is None:
        return "–"
    ago = f"{as_duration(at_ms - checkpoint['ended'])} ago"
    if checkpoint["failure"]:
        return element("span", f"{checkpoint['id']} failed {ago}", cls="bad", title=checkpoint["failure"])
    return joined(f"{ago} ", element("span", f"in {as_short_duration(checkpoint['duration'])}", cls="faint"))


def _running_tasks(job: dict[str, Any]) -> str:
    tasks = job["tasks"]
    return f"{tasks.get('running', 0)} of {tasks['total']}" if tasks["total"] and job["end-time"] < 0 else "–"


def state_of(state: str) -> Markup:
    """Show the state of a job, a task or a checkpoint, with its color."""
    return element("span", state.lower().replace("_", " "), cls=f"state {state.lower()}")


def _event_time(lag_ms: float) -> Markup:
    return element("span", as_event_time(lag_ms, now_ms()), cls=lag_class(lag_ms))


def subtasks_table(subtasks: Sequence[SubtaskFigures]) -> Markup:
    """Show each subtask with its share of the highest rate, so that skew is visible at a glance.

    When no subtask has a rate, show shares of the most records.
    """
    loads = [max(one.in_per_s, one.out_per_s) for one in subtasks]
    if not any(loads):
        loads = [max(one.read, one.written) for one in subtasks]
    highest = max(loads, default=0.0)
    rows = []
    for one, load in zip(subtasks, loads, strict=True):
        share = load / highest if highest else 0.0
        lag = "–" if one.lag_ms is None else _event_time(one.lag_ms)
        rows.append(
            [
                str(one.index),
                state_of(one.status),
                _bar(share, "bar-rate"),
                as_rate(one.in_per_s),
                as_rate(one.out_per_s),
                _percent(one.busy, "bar-busy"),
                _percent(one.back_pressure, "bar-back"),
                lag,
                f"{one.read:,}",
                f"{one.written:,}",
                str(one.attempt),
                one.slot,
            ]
        )
    heads = [
        "#",
        "state",
        "share",
        "in",
        "out",
        "busy",
        "back pressure",
        "event time",
        "read",
        "written",
        "attempt",
        "slot",
    ]
    return table(heads, rows, numbers={0, *range(3, 11)})


def _bar(share: float, cls: str) -> Markup:
    inner = element("i", cls=cls, style=f"width: {100 * min(1.0, max(0.0, share)):.0f}%")
    return element("span", inner, cls="bar")


def _percent(share: float, cls: str) -> Markup:
    # Workers measure the time and the driver divides it: the result may slightly exceed a second.
    share = min(1.0, share)
    return joined(f"{100 * share:.0f} % ", _bar(share, cls))


def checkpoints_table(history: Sequence[dict[str, Any]]) -> Markup:
    """Show the history of `/jobs/:id/checkpoints`, newest first. A row names its checkpoint, for selection."""
    if not history:
        return element("p", "No checkpoint yet.", cls="nothing")
    rows = []
    for one in history[:_CHECKPOINTS_MAX]:
        kind = " savepoint" if one["is_savepoint"] else ""
        why = one.get("failure_message") or one.get("external_path") or ""
        rows.append(
            [
                element("a", f"{one['id']}{kind}", href="#", data_checkpoint=one["id"]),
                state_of(one["status"]),
                as_moment(one["trigger_timestamp"])[-8:],
                as_short_duration(one["end_to_end_duration"]) if one["status"] != "IN_PROGRESS" else "–",
                as_size(one["checkpointed_size"]),
                as_size(one["state_size"]),
                f"{one['num_acknowledged_subtasks']} of {one['num_subtasks']}",
                element("span", why, cls="path"),
            ]
        )
    heads = ["checkpoint", "state", "triggered", "duration", "written", "whole", "acknowledged", "path, or failure"]
    older = len(history) - len(rows)
    more = element("p", f"{older} older ones: click a column of a chart.", cls="faint") if older else None
    return joined(table(heads, rows, numbers=range(2, 7)), more)


def checkpoint_subtasks_table(vertices: Sequence[tuple[str, dict[str, Any]]]) -> Markup:
    """Show one checkpoint by subtask. `vertices`: names, with `/checkpoints/details/:n/subtasks/:vertex`."""
    rows = [
        [
            f"{name} · {one['index']}",
            as_short_duration(one["end_to_end_duration"]),
            f"{one['start_delay']:,} ms",
            f"{one['alignment']['duration']:,} ms",
            f"{one['checkpoint']['sync']:,} ms",
            f"{one['checkpoint']['async']:,} ms",
            as_size(one["checkpointed_size"]),
            as_size(one["state_size"]),
            as_size(one["alignment"]["persisted"]),
        ]
        for name, details in vertices
        for one in details["subtasks"]
        if one["className"] == "completed"
    ]
    heads = ["subtask", "duration", "start delay", "alignment", "sync", "async", "written", "whole", "in flight"]
    return table(heads, rows, numbers=range(1, 9))


def failures_of(history: dict[str, Any]) -> Markup:
    """Show the exceptions of a job, newest first: where, what, and the traceback of the user's code first."""
    if not history["entries"]:
        return element("p", "No exceptions.", cls="nothing")
    shown = [
        element(
            "details",
            element("summary", *_summary_of(one)),
            element("pre", one["stacktrace"]),
            # The newest one is open, since users look for it.
            **({"open": ""} if index == 0 else {}),
        )
        for index, one in enumerate(history["entries"])
    ]
    more = element("p", "Older ones are not shown.", cls="faint") if history["truncated"] else None
    return joined(*shown, more)


def _summary_of(failure: dict[str, Any]) -> tuple[str, ...]:
    time = element("span", as_moment(failure["timestamp"]), cls="faint")
    return (
        time,
        " ",
        element("b", failure["exceptionName"]),
        " ",
        element("span", failure["taskName"] or "", cls="faint"),
    )


def latency_table(vertices: Sequence[VertexFigures]) -> Markup:
    """Show how long latency markers took from a source to each operator."""
    measured = [vertex for vertex in vertices if vertex.latency_mean_ms is not None]
    if not measured:
        return element(
            "p",
            "No latency is measured. ",
            element("code", "-D metrics.latency.interval=200ms"),
            " makes sources send latency markers at this interval; operators' latencies are shown here.",
            cls="nothing",
        )
    longest = max(vertex.latency_max_ms or 0.0 for vertex in measured) or 1.0
    rows = [
        [
            vertex.name,
            _bar((vertex.latency_mean_ms or 0.0) / longest, "bar-rate"),
            f"{vertex.latency_mean_ms:.1f} ms",
            f"{vertex.latency_max_ms or 0.0:.1f} ms",
        ]
        for vertex in measured
    ]
    return table(["from a source to", "", "mean", "longest"], rows, numbers=range(2, 4))


def entries_table(answer: dict[str, Any]) -> Markup:
    """Show the answer to `/jobs/:id/state/entries`."""
    if not answer["entries"]:
        return element("p", "No entry.", cls="nothing")
    heads = list(answer["entries"][0])
    rows = [[element("code", _shown(entry[head])) for head in heads] for entry in answer["entries"]]
    more = None if answer.get("is-complete", True) else element("p", "More entries are not shown.", cls="faint")
    return joined(table(heads, rows), more)


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _VALUE_MAX else f"{text[:_VALUE_MAX]}…"
