"""`penstock top`: rates and loads follow from two samples."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from io import StringIO
from typing import Any

import msgspec
from rich.console import Console

from penstock.common.constants import MIN_TIMESTAMP
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.checkpoint.report import CheckpointReport
from penstock.engine.jobmaster.autoscaling.decision import ScalingDecision, VertexScaling
from penstock.engine.jobmaster.execution_graph import JobFailure
from penstock.engine.jobmaster.metrics import JobFigures, JobMetrics
from penstock.engine.jobmaster.notices import Autoscaled
from penstock.engine.rpc.messages import OperatorReport, TaskReport
from penstock.engine.runtime.ids import SlotId
from penstock.service.cli.top import screen
from penstock.service.client.plan_executor import PlanExecutor

START_MS = 1_700_000_000_000


def sample(
    at_ms: int,
    read: int,
    busy_ms: int,
    watermark: int = MIN_TIMESTAMP,
    reported: bool = True,
    autoscaled: Autoscaled | None = None,
    failures: Sequence[JobFailure] = (),
    **others: Any,
) -> dict[str, Any]:
    """What a job answers that has read so many records, sent by the way that answers go."""
    planned = PlanExecutor()
    env = StreamExecutionEnvironment(executor=planned)
    env.from_collection([1]).map(str).name("words").print()
    env.execute()
    metrics = JobMetrics(planned.graphs[0])
    operators = [OperatorReport(name, read, read * 2, 0, watermark, {}) for name in ("source", "words", "print")]
    idle_ns = (at_ms - START_MS - busy_ms) * 1_000_000
    if reported:
        report = TaskReport(0, 0, 0, 0, 0, 0, busy_ms * 1_000_000, idle_ns, 0, 0, 0, 0, operators)
        metrics.update([msgspec.structs.replace(report, **others)])
    checkpoint = CheckpointReport(7, at_ms - 1_500, 500, 1, 1, total_bytes=2_000)
    figures = JobFigures("RUNNING", 1, metrics.totals(), metrics.vertices(), checkpoint, autoscaled=autoscaled)
    figures = dataclasses.replace(figures, failures=failures)
    return {**json.loads(msgspec.json.encode(figures)), "at_ms": at_ms}


def shown(before: dict[str, Any], after: dict[str, Any]) -> str:
    return " ".join(lines_of(before, after, 160))


def lines_of(before: dict[str, Any], after: dict[str, Any], width: int) -> list[str]:
    console = Console(file=StringIO(), width=width)
    console.print(screen("count", job_id="a" * 32, started_ms=START_MS, before=before, after=after))
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    return [" ".join(line.split()) if width > 80 else line.rstrip() for line in printed.splitlines()]


def test_a_screen_has_rates_loads_and_event_time() -> None:
    """The user would look for the slow operator in totals."""
    now_ms = START_MS + 10_000
    text = shown(sample(now_ms - 2_000, 1_000, 1_000), sample(now_ms, 5_000, 1_500, now_ms - 3_000))

    assert "aaaaaaaa 'count' running for 10.0 s, 1 restart in 10,000 (4,000/s), out 5,000 (2,000/s)" in text
    assert "event time 3.0 s behind" in text
    assert "checkpoint 7 1.0 s ago, took 500 ms, 2.0 kB" in text
    assert "Collection Source -> words -> Print to Std. Out 1 2,000/s 4,000/s 25% 0% -3.0 s" in text


def test_the_newest_decision_of_the_autoscaler_is_seen() -> None:
    """A user would see other numbers of subtasks than yesterday's, and not who has changed them."""
    now_ms = START_MS + 10_000
    scaling = VertexScaling(0, "words", 1, 3, "they are slow")
    done = Autoscaled(ScalingDecision(now_ms - 4_000, (scaling,), ("2 more slots are needed",)), True)
    text = shown(sample(now_ms - 2_000, 1, 1), sample(now_ms, 2, 2, autoscaled=done))
    assert "autoscaler 4.0 s ago: words 1 → 3; 2 more slots are needed" in text
    refused = Autoscaled(done.decision, False, "the job ends")
    text = shown(sample(now_ms - 2_000, 1, 1), sample(now_ms, 2, 2, autoscaled=refused))
    assert "autoscaler 4.0 s ago, not done: words 1 → 3; 2 more slots are needed (the job ends)" in text


def test_a_checkpoint_that_failed_is_seen_with_its_reason() -> None:
    """A user would see an old checkpoint, and not that none completes any more, nor why."""
    now_ms = START_MS + 10_000
    failed = CheckpointReport(8, now_ms - 3_000, 1_000, 1, 4, failure="it took longer than 1 s")
    after = {**sample(now_ms, 2, 2), "failed_checkpoint": json.loads(msgspec.json.encode(failed))}
    text = shown(sample(now_ms - 2_000, 1, 1), after)
    assert "checkpoint 8 failed 2.0 s ago, with 1 of 4 subtasks: it took longer than 1 s" in text


def test_failures_are_seen_with_the_end_of_the_users_traceback() -> None:
    """A user would see that his job restarts, and look for the reason in its logs."""
    now_ms = START_MS + 60_000
    frames = [f'    File "job.py", line {n}, in parse{n}' for n in range(9)]
    text = "\n".join(["operator 'words', subtask 1 of 1, in map", *frames, "      ~~^^^", "  KeyError: '[bold]'"])
    lost = JobFailure("penstock.TaskLostError", "of level 1\nthe worker was killed", now_ms - 40_000)
    failed = JobFailure("penstock.UserFunctionError", text, now_ms - 2_000, SlotId(0, 0), 1)
    seen = shown(sample(now_ms - 2_000, 1, 1), sample(now_ms, 2, 2, failures=[lost, failed]))
    newest = "failed 2.0 s ago by penstock.UserFunctionError: operator 'words', subtask 1 of 1, in map … File"
    assert newest in seen and "in parse8 KeyError: '[bold]' failed 40.0 s ago" in seen
    assert "failed 40.0 s ago by penstock.TaskLostError: the worker was killed" in seen
    assert "parse4" not in seen and "parse5" in seen


def test_a_failure_of_one_long_line_does_not_fill_the_screen() -> None:
    """The table of operators would be pushed off the screen by the value on which a function failed."""
    now_ms = START_MS + 60_000
    seen = shown(
        sample(now_ms - 2_000, 1, 1), sample(now_ms, 2, 2, failures=[JobFailure("Error", "x" * 9_000, now_ms)])
    )
    assert "by Error: xxx" in seen and seen.count("x") < 300


def test_a_subtask_with_most_of_the_records_is_seen() -> None:
    """A user would see a slow operator at half of its load: its busy subtask hides behind the idle ones."""
    planned = PlanExecutor()
    env = StreamExecutionEnvironment(executor=planned)
    env.from_collection([1]).key_by(str).map(str).name("words").set_parallelism(4).print()
    env.execute()

    def screen_with(*counts: int) -> str:
        metrics = JobMetrics(planned.graphs[0])
        operators = [[OperatorReport(name, count, count, 0, 0, {}) for name in ("words", "print")] for count in counts]
        metrics.update(
            [TaskReport(1, subtask, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, own) for subtask, own in enumerate(operators)]
        )
        figures = JobFigures("RUNNING", 0, metrics.totals(), metrics.vertices(), None)
        one = {**json.loads(msgspec.json.encode(figures)), "at_ms": START_MS}
        return shown(one, one)

    assert "skew 100% at words" in (text := screen_with(10, 970, 10, 10))
    assert "of 1,000 records one of 4 subtasks had 970" in text
    assert "skew" not in screen_with(200, 300, 250, 250)
    assert "skew" not in screen_with(0, 0, 0, 0)


def test_a_restore_is_seen_while_it_lasts() -> None:
    """A job with much state would seem to hang for minutes."""
    now_ms = START_MS + 1_000
    progress = {"restored_bytes": 1_200_000_000, "bytes_to_restore": 2_000_000_000}
    files = {"restored_files": 31, "files_to_restore": 60}
    text = shown(sample(now_ms, 0, 0), sample(now_ms + 1_000, 0, 0, initializing=True, **progress, **files))
    assert "1 of 1 subtasks of Collection Source -> words -> Print to Std. Out INITIALIZING: " in text
    assert "1.2 GB of 2.0 GB restored, 31 of 60 files" in text
    opening = shown(sample(now_ms, 0, 0), sample(now_ms + 1_000, 0, 0, initializing=True))
    assert "INITIALIZING" in opening and "files" not in opening
    assert "INITIALIZING" not in shown(sample(now_ms, 0, 0), sample(now_ms + 1_000, 0, 0, **progress, **files))


def test_a_job_that_has_just_started_has_a_screen() -> None:
    """`penstock top` would end with an error while the job starts."""
    now_ms = START_MS + 1_000
    text = shown(sample(now_ms, 0, 0, reported=False), sample(now_ms + 1_000, 0, 0, reported=False))

    assert "0/s 0/s - - -" in text
    assert "event time" not in text


def test_it_fits_into_eighty_columns() -> None:
    """The figures at the right would be cut off in the window of a usual terminal: `1,234,56…`."""
    now_ms = START_MS + 10_000
    for records, rate in ((4_000, "2,000/s"), (199_998, "99,999/s"), (2_469_134, "1,235k/s"), (246_913_400, "123M/s")):
        before, after = sample(now_ms - 2_000, 0, 1_000), sample(now_ms, records, 3_000, 1_356_998_400_000)
        lines = lines_of(before, after, 80)
        assert max(map(len, lines)) <= 80 and not any("…" in line for line in lines), lines
        assert any(f"  {rate}" in line and "100%" in line and line.endswith("2013-01-01") for line in lines), lines
