"""Commands that control running jobs: list, savepoint, stop, scale, cancel, checkpoints."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.common.errors import JobNotRunningError, PenstockError
from penstock.common.text.one_line import on_one_line
from penstock.common.text.quantities import as_event_time, as_moment, as_size
from penstock.common.time.wall_clock import now_ms
from penstock.service.cli.elected import leader_in
from penstock.service.cli.options import ConfFile, Settings
from penstock.service.client.live_line import LiveLine

if TYPE_CHECKING:
    from penstock.engine.rpc.messages import Command
    from penstock.service.cluster.running_jobs import RunningJob

_ANSWER_SECONDS = 5.0
_START_SECONDS = 60.0
_AGAIN_SECONDS = 0.2
_LIST_SECONDS = 1.5
"""How long each job of a list may take: a silent one must not delay the list."""
_RATE_SECONDS = 1.0
_WATCH_SECONDS = 1.0
_HOME_AND_CLEAR = "\x1b[H\x1b[2J"

Job = Annotated[
    str, typer.Argument(metavar="JOB", show_default=False, help="Id of the job, a prefix of it, or its name.")
]
Directory = Annotated[
    str | None,
    typer.Argument(
        metavar="[DIR]",
        show_default=False,
        help="Directory of the savepoint; default: execution.checkpointing.savepoint-dir.",
    ),
]


Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", metavar="SECONDS", min=0, help="How long to wait for a job that is starting or restarting."
    ),
]


def list_jobs(
    settings: Settings = None,
    conf_file: ConfFile = None,
    running: Annotated[bool, typer.Option("--running", "-r", help="Running jobs: the default.")] = False,
    scheduled: Annotated[
        bool,
        typer.Option("--scheduled", "-s", help="Jobs of clusters on this machine that wait for slots or are starting."),
    ] = False,
    all_jobs: Annotated[
        bool, typer.Option("--all", "-a", help="All jobs, including ended ones of clusters on this machine.")
    ] = False,
) -> None:
    """List the running jobs of this machine: id, start, status, parallelism, records a second, event-time lag, name.

    With settings of high availability, list id, start, status and name of all jobs of the cluster that they name.
    """
    from penstock.service.cluster.running_jobs import JobRegistry

    leader = leader_in(settings, conf_file)
    if leader is not None:
        for job in leader.get("/jobs/overview")["jobs"]:
            typer.echo(f"{job['jid']}  {as_moment(job['start-time'])}  {job['state']:<12}  {on_one_line(job['name'])}")
        return
    of_clusters, silent = _of_clusters(all_jobs) if scheduled or all_jobs else ([], [])
    if scheduled and not (running or all_jobs):
        for line in of_clusters:
            typer.echo(line)
        if not of_clusters:
            typer.echo("no job waits in a cluster on this machine", err=True)
        _exit_if_unanswered(silent)
        return
    starting = JobRegistry().starting()
    jobs = JobRegistry().jobs()
    # In parallel, so that a job that does not answer does not delay the others.
    with waiting(), ThreadPoolExecutor(max(1, len(jobs))) as pool:
        shown = list(pool.map(_lines_of, jobs))
    for line in itertools.chain(of_clusters, *shown):
        typer.echo(line)
    known = {job.job_id for job in jobs}
    for one in starting:
        # A job that started to run after starting() was read is listed above.
        if one.job_id not in known:
            typer.echo(f"{one.job_id}  {as_moment(one.started_ms)}  STARTING   {on_one_line(one.name)}")
    if not (jobs or starting or of_clusters):
        from penstock.service.cli.local_clusters import hint_at_waiting_jobs

        typer.echo(f"no job is running on this machine{hint_at_waiting_jobs()}", err=True)
    _exit_if_unanswered(silent)


def _exit_if_unanswered(silent: list[str]) -> None:
    """Print why some clusters can't be reached, whose jobs the list may lack, and raise typer.Exit if there are any."""
    for why in silent:
        typer.echo(f"penstock.JobError: {why}", err=True)
    if silent:
        raise typer.Exit(1)


def _of_clusters(with_ended: bool) -> tuple[list[str], list[str]]:
    """Return a line for each waiting or starting job of a cluster, and why some clusters can't be reached.

    Running jobs are found without their clusters. With `with_ended`, include jobs that have ended.
    """
    from penstock.service.cli.local_clusters import has_not_started, job_line, submitted_jobs

    jobs, silent = submitted_jobs()
    states = [job.state for job in jobs]
    lines = [job_line(job) for job in states if has_not_started(job) or (with_ended and job["phase"] == "ENDED")]
    return lines, silent


def _lines_of(job: RunningJob) -> list[str]:
    """Return the line of a job, and one about its autoscaler. Takes a second: a rate needs two samples."""
    from penstock.service.cli.decision import as_decision

    head = f"{job.job_id}  {as_moment(job.started_ms)}"
    try:
        before = _figures(job)
        time.sleep(_RATE_SECONDS)
        after = _figures(job)
    except PenstockError:
        return [f"{head}  does not answer (process {job.pid})  {on_one_line(job.name)}"]
    line = f"{head}  {_figures_line(before, after)}  {on_one_line(job.name)}"
    if after.get("autoscaled") is None:
        return [line]
    return [line, f"  {as_decision(after['autoscaled'], after['at_ms'])}"]


def _figures(job: RunningJob) -> dict[str, Any]:
    """Return the figures of a job, with the time of their arrival as `at_ms`. Raises JobError without an answer."""
    from penstock.engine.rpc.messages import Command

    figures: dict[str, Any] = json.loads(_answer(job, Command("figures"), _LIST_SECONDS))
    return {**figures, "at_ms": now_ms()}


def _figures_line(before: dict[str, Any], after: dict[str, Any]) -> str:
    grown = after["totals"]["records_in"] - before["totals"]["records_in"]
    rate = max(0, grown) * 1000 / max(1, after["at_ms"] - before["at_ms"])
    parallelism = max((vertex["parallelism"] for vertex in after["vertices"]), default=0)
    watermark = after["totals"]["watermark"]
    lag = "-" if watermark is None else as_event_time(after["at_ms"] - watermark, after["at_ms"])
    return f"{after['status']:<9}  parallelism {parallelism}  {rate:>9,.0f} records/s  {lag}"


def savepoint(job: Job, directory: Directory = None, timeout: Timeout = _START_SECONDS) -> None:
    """Take a savepoint of a running job, and print its path. The job continues.

    
      penstock savepoint flights s3://bucket/savepoints
      penstock run -s s3://bucket/savepoints/savepoint-… -p 8 job.py
    """
    print_result(lambda: _when_running(lambda: _command_job(job, "savepoint", directory), timeout))


def stop(
    job: Job,
    directory: Directory = None,
    with_savepoint: Annotated[
        bool, typer.Option("--savepoint", help="Take a savepoint. Always on: to stop without one, use cancel.")
    ] = True,
    drain: Annotated[
        bool,
        typer.Option("--drain", "-d", help="Advance event time to its end first, so that all windows and timers fire."),
    ] = False,
    savepoint_path: Annotated[
        str | None,
        typer.Option(
            "--savepoint-path", "--savepointPath", "-p", metavar="DIR", show_default=False, help="The same as DIR."
        ),
    ] = None,
    timeout: Timeout = _START_SECONDS,
) -> None:
    """Stop a running job with a savepoint, and print its path. Output before the savepoint is committed.

    
      penstock stop flights /data/savepoints
      penstock run -s /data/savepoints/savepoint-… job.py
    """
    if directory is not None and savepoint_path is not None:
        raise typer.BadParameter(f"the directory is also given as an argument: {directory}. Give one", param_hint="-p")
    print_result(lambda: _when_running(lambda: _command_job(job, "stop", directory or savepoint_path, drain), timeout))


def scale(
    job: Job,
    parallelism: Annotated[
        int | None,
        typer.Option("--parallelism", "-p", min=1, help="Subtasks of each operator that no --operator names."),
    ] = None,
    operators: Annotated[
        list[str] | None,
        typer.Option(
            "--operator", metavar="NAME=N", help="Subtasks of one operator, by its name or uid; may be repeated."
        ),
    ] = None,
) -> None:
    """Change the parallelism of a running job: it takes a checkpoint, and resumes from it with other subtasks.

    
      penstock scale flights -p 4
      penstock scale flights --operator delays=8
    """
    from penstock.engine.rpc.messages import Command

    named = [_operator(text) for text in operators or []]
    by_name = dict(named)
    if len(by_name) < len(named):
        raise typer.BadParameter("the same operator is given twice", param_hint="--operator")
    if parallelism is None and not by_name:
        raise typer.BadParameter("give the number of subtasks: --parallelism 4, or --operator NAME=4")
    print_result(lambda: _command(job, Command("scale", parallelism=parallelism, operators=by_name), None))


def _operator(text: str) -> tuple[str, int]:
    name, _, subtasks = text.rpartition("=")
    if not (name and subtasks.isascii() and subtasks.isdigit()):
        raise typer.BadParameter(f"expected NAME=N, such as delays=4, got '{text}'", param_hint="--operator")
    return name, int(subtasks)


def request_update(job: str, program_for: Callable[[str], bytes], allow_non_restored: bool) -> str:
    """Give a running job new functions. `program_for` packs them for a job with the given name."""
    from penstock.engine.rpc.messages import Command
    from penstock.service.cli.local_clusters import running_job

    found = running_job(job)
    command = Command("update", program=program_for(found.name), allow_non_restored=allow_non_restored)
    return _answer(found, command, None)


def _refuse_savepoint(asked: bool) -> None:
    if asked:
        raise typer.BadParameter(
            "cancel takes no savepoint. To stop a job with one: penstock stop JOB DIR", param_hint="-s"
        )


def cancel(
    job: Job,
    with_savepoint: Annotated[
        bool, typer.Option("--withSavepoint", "-s", hidden=True, is_eager=True, callback=_refuse_savepoint)
    ] = False,
) -> None:
    """Stop a running job immediately. Uncommitted output is lost, and checkpoints are deleted unless they are retained.

    To retain them: execution.checkpointing.externalized-checkpoint-retention: RETAIN_ON_CANCELLATION.
    """
    print_result(lambda: _cancel(job))
    typer.echo(f"canceling '{job}'", err=True)


def _cancel(job: str) -> str:
    from penstock.engine.rpc.messages import Command
    from penstock.service.cli.local_clusters import cancel_waiting_job
    from penstock.service.cluster.job_reference import is_named
    from penstock.service.cluster.running_jobs import JobRegistry

    # A running job takes precedence over a waiting one with the same name, even if it does not answer.
    running = JobRegistry().named(job)
    is_meant = any(is_named(job, one.name, (one.job_id,)) for one in running)
    if not is_meant and cancel_waiting_job(job, another_runs=bool(running)):
        return ""
    # Not running_job(): the waiting jobs have been searched above.
    return _answer(JobRegistry().find(job), Command("cancel"), _ANSWER_SECONDS)


def checkpoints(
    job: Job, watch: Annotated[bool, typer.Option("--watch", help="Refresh every second until Ctrl-C.")] = False
) -> None:
    """Show the latest checkpoints of a running job, with their sizes and the times of the slowest subtask."""

    def show() -> str:
        reports = json.loads(_command_job(job, "checkpoints"))
        return "\n".join(_table(reports)) if reports else "no checkpoint has completed or failed yet"

    print_result(show)
    with contextlib.suppress(KeyboardInterrupt):
        while watch:
            time.sleep(_WATCH_SECONDS)
            # Before the screen is cleared, so that it is not empty while the job answers.
            text = _result_of(show)
            typer.echo(_HOME_AND_CLEAR * sys.stdout.isatty() + text)


def _table(reports: list[dict[str, Any]]) -> list[str]:
    lines = ["   id  triggered  duration  start delay  alignment   sync     async    written      total"]
    for report in reports:
        at = datetime.fromtimestamp(report["triggered_ms"] / 1000).strftime("%H:%M:%S")
        start = f"{report['checkpoint_id']:5}   {at} {report['duration_ms']:6} ms"
        if report["failure"]:
            done = f"{report['acknowledged']} of {report['of_subtasks']} subtasks"
            lines.append(f"{start}  failed ({done} had acknowledged): {report['failure']}")
            continue
        lines.append(
            f"{start} {report['start_delay_ms']:9.0f} ms {report['alignment_ms']:7.1f} ms "
            f"{report['sync_ms']:5.1f} ms {report['async_ms']:6.0f} ms {as_size(report['written_bytes']):>9} "
            f"{as_size(report['total_bytes']):>10}"
        )
    completed = [report for report in reports if not report["failure"]]
    if not completed:
        return lines
    newest = completed[-1]
    lines.append(f"\nsubtasks of checkpoint {newest['checkpoint_id']}:")
    for one in newest["subtasks"]:
        figures = one["figures"]
        lines.append(
            f"                         {figures['start_delay_ms']:9.0f} ms {figures['alignment_ms']:7.1f} ms "
            f"{figures['sync_ms']:5.1f} ms "
            f"{figures['async_ms']:6.0f} ms {as_size(figures['written']):>9} {as_size(figures['total']):>10}  "
            f"{one['vertex']} ({one['subtask'] + 1}){' ended' * one['ended']}"
        )
    return lines


def _command_job(job: str, verb: Any, directory: str | None = None, drain: bool = False) -> str:
    from penstock.common.files.file_systems import absolute
    from penstock.engine.rpc.messages import Command

    if directory is not None:
        # Make it absolute: the job has another working directory.
        directory = absolute(directory)
    wait_s = None if verb in ("savepoint", "stop") else _ANSWER_SECONDS
    return _command(job, Command(verb, directory, drain), wait_s)


def _when_running(call: Callable[[], str], timeout_s: float) -> str:
    """Call until the job runs. Raises JobNotRunningError if it does not within the timeout."""
    until = time.monotonic() + timeout_s
    while True:
        try:
            return call()
        except JobNotRunningError:
            if time.monotonic() > until:
                raise
        time.sleep(_AGAIN_SECONDS)


def _command(job: str, command: Command, timeout_s: float | None) -> str:
    from penstock.service.cli.local_clusters import running_job

    return _answer(running_job(job), command, timeout_s)


def _answer(job: RunningJob, command: Command, timeout_s: float | None) -> str:
    from penstock.engine.rpc.commands import send_command
    from penstock.service.cluster.running_jobs import JobRegistry

    no_answer = (
        f"the job '{job.name}' does not answer: its process, {job.pid}, is busy or suspended. To see what it did last: "
        f"penstock logs {job.job_id[:8]}. To end it: kill {job.pid}; with checkpoints, run it again with -s latest"
    )
    return send_command(
        job.address, command, timeout_s, is_running=lambda: job in JobRegistry().jobs(), no_answer=no_answer
    )


def query_figures(job: RunningJob) -> str:
    """Return the figures of a running job, as JSON. Raises JobError if it does not answer."""
    from penstock.engine.rpc.messages import Command

    return _answer(job, Command("figures"), _ANSWER_SECONDS)


def print_result(call: Callable[[], str]) -> None:
    """Print the result of `call`. If it raises a PenstockError, print its message and raise typer.Exit."""
    with waiting():
        text = _result_of(call)
    if text:
        typer.echo(text)


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """Show on a terminal that the command waits: a busy job may take seconds to answer, a savepoint minutes."""
    with LiveLine() as line:
        line.show("waiting for the answer …")
        yield


def _result_of(call: Callable[[], str]) -> str:
    try:
        return call()
    except PenstockError as error:
        typer.echo(f"penstock.{type(error).__name__}: {error}", err=True)
        raise typer.Exit(1) from None
