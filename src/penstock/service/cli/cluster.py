"""`penstock cluster`: one Spark application for many jobs."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NoReturn

import typer

from penstock.common.errors import PenstockError
from penstock.service.cli.elected import leader_in
from penstock.service.cli.local_clusters import job_line
from penstock.service.cli.options import ConfFile, Settings, high_availability_in, settings_in, settings_of, ssl_in
from penstock.service.client.live_line import LiveLine

if TYPE_CHECKING:
    from penstock.service.client.rest_client import RestClient
    from penstock.service.cluster.rest_address import RestAddress
    from penstock.service.cluster.running_cluster import RunningCluster

_START_S = 120.0
_STOP_S = 30.0
_LOOK_S = 0.1
_PORTS = "8081-8099,0"

cluster = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Start, show and stop a cluster: one Spark application for many jobs.",
)

Directory = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        metavar="DIR",
        show_default=False,
        help="Directory in which the cluster keeps its jobs. Default: below the cache directory.",
    ),
]

MostSlots = Annotated[
    int | None,
    typer.Option(
        "--max-slots",
        min=1,
        show_default=False,
        help="While jobs wait, request up to this many slots from the Spark cluster; idle ones are released again.",
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        show_default=False,
        help="spark://HOST:PORT, yarn, k8s://...; not set: this machine.",
    ),
]


@cluster.command()
def start(
    slots: Annotated[
        int,
        typer.Option("--slots", min=1, help="Slots of Spark on this machine, or to request from the Spark cluster."),
    ] = 64,
    most_slots: MostSlots = None,
    master: Master = None,
    directory: Directory = None,
    rest_port: Annotated[
        str, typer.Option("--rest-port", metavar="PORT", help="Port of REST and of the page, on this machine only.")
    ] = _PORTS,
    settings: Settings = None,
    conf_file: ConfFile = None,
    standby: Annotated[
        bool, typer.Option("--standby", help="Wait until the cluster with this DIR has ended, and take its place.")
    ] = False,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Run in the foreground and log to standard error: for containers.")
    ] = False,
) -> None:
    """Start a cluster, and return when it accepts jobs. It resumes the jobs that an earlier cluster with this DIR left.

    
      penstock cluster start --slots 16
      penstock run -m localhost:8081 job.py
    """
    import msgspec

    from penstock.common.files.cache_directory import cache_directory
    from penstock.service.cluster.running_cluster import LOG
    from penstock.service.dispatcher.cluster_settings import SETTINGS, ClusterSettings

    _check_ports(rest_port)
    both = settings_in(conf_file) | settings_of(None, settings, master=master)
    elected, ssl = high_availability_in(both), ssl_in(both)
    given = _settings_of_spark({key: value for key, value in both.items() if key not in elected | ssl}, slots)
    if most_slots is not None:
        given = _growing(given, slots, most_slots)
    path = (directory or cache_directory(os.environ) / "cluster").absolute()
    log = path / LOG
    output = _log_at(log)
    cluster_settings = ClusterSettings(
        slots,
        str(path),
        ports=rest_port,
        spark=given,
        standby=standby,
        high_availability=elected,
        ssl=ssl,
        most_slots=most_slots or 0,
        warm_up=str(_warm_up_in(path)) if elected else "",
    )
    command = [sys.executable, "-P", "-m", "penstock.service.dispatcher.main"]
    environment = {**os.environ, SETTINGS: msgspec.json.encode(cluster_settings).decode()}
    if foreground:
        os.execve(sys.executable, command, environment)
    _print_start(_started(command, environment, log, output), log)


def _print_start(running: RunningCluster, log: Path) -> None:
    from penstock.service.cluster.rest_address import shown_address

    if running.rest is None:
        typer.echo(f"process {running.pid} is a standby. Log: {log}", err=True)
        return
    typer.echo(f"the cluster accepts jobs: penstock run -m {running.rest.url.removeprefix('http://')} JOB")
    typer.echo(f"page and REST: {shown_address(running.rest)}", err=True)
    typer.echo(f"log: {log}", err=True)


def _settings_of_spark(given: dict[str, str], slots: int) -> dict[str, str]:
    """Return the settings of the Spark session. Raises typer.BadParameter for a setting that is not one of Spark's."""
    for key in given:
        if not key.startswith("spark."):
            raise typer.BadParameter(
                f"{key} is a setting of jobs: pass it to penstock run. A cluster accepts settings of Spark (spark.*) "
                "and of high availability (high-availability.*)",
                param_hint="-D",
            )
    # On this machine Spark has exactly as many cores as the cluster promises to its jobs.
    return {"spark.master": f"local[{slots}]", **given}


def _growing(given: dict[str, str], slots: int, most: int) -> dict[str, str]:
    """Settings of a session whose executors come and go. Raises typer.BadParameter where they can't."""

    def refuse(why: str) -> NoReturn:
        raise typer.BadParameter(why, param_hint="--max-slots")

    if given["spark.master"].startswith("local"):
        refuse("slots can be added on a Spark cluster only; on this machine, set their number with --slots")
    if "spark.executor.cores" not in given:
        refuse("Spark adds slots by executors: set the cores of an executor, such as -D spark.executor.cores=4")
    cpus = int(given.get("spark.task.cpus", "1"))
    each = int(given["spark.executor.cores"]) // cpus
    if each < 1 or most % each or most < slots:
        refuse(f"expected a multiple of {each} (the slots of an executor) from --slots ({slots}) on, got {most}")
    # A standalone master limits an application for its whole life to the cores that it requests when it starts.
    return {"spark.cores.max": str(most * cpus), **given}


def _warm_up_in(directory: Path) -> Path:
    """Write the job that a standby runs to warm up, and return its folder."""
    from penstock.service.cli.warm_up import warm_up_job

    folder = directory / "warm-up"
    folder.mkdir(exist_ok=True, mode=0o700)
    (folder / "job").write_bytes(warm_up_job())
    return folder


def _check_ports(ports: str) -> None:
    from penstock.common.errors import ConfigurationError
    from penstock.service.rest.ports import ports_in

    try:
        ports_in(ports)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error), param_hint="--rest-port") from None


def _log_at(log: Path) -> BinaryIO:
    try:
        log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return log.open("ab")
    except OSError as error:
        raise typer.BadParameter(
            f"cannot write to the directory of the cluster's jobs: {error}", param_hint="--dir"
        ) from None


def _started(command: list[str], environment: dict[str, str], log: Path, output: BinaryIO) -> RunningCluster:
    with output:
        begin = output.tell()
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    return _wait_for_start(process, log, begin)


def _wait_for_start(process: subprocess.Popen[bytes], log: Path, begin: int) -> RunningCluster:
    from penstock.service.cluster.running_cluster import running_clusters

    until_s = time.monotonic() + _START_S
    try:
        with LiveLine() as line:
            while time.monotonic() < until_s:
                for found in running_clusters():
                    if found.pid == process.pid:
                        return found
                if process.poll() is not None:
                    with log.open("rb") as file:
                        file.seek(begin)
                        typer.echo(file.read().decode(errors="replace").strip(), err=True)
                    raise typer.Exit(1)
                line.show("Spark starts …")
                time.sleep(_LOOK_S)
    except KeyboardInterrupt:
        process.terminate()
        raise
    process.terminate()
    typer.echo(f"the cluster did not start within {_START_S:.0f} s. See {log}", err=True)
    raise typer.Exit(1)


@cluster.command()
def status(directory: Directory = None, settings: Settings = None, conf_file: ConfFile = None) -> None:
    """Show slots and jobs of this user's clusters on this machine, or of the one with DIR.

    With settings of high availability, show the cluster that they name, wherever its leader runs.
    """
    from penstock.service.client.rest_client import RestClient

    leader = leader_in(settings, conf_file)
    if leader is not None:
        address = leader.address()
        if not _show(
            leader, f"{address.url}  process {address.pid} on {address.host}, term {address.term}", leader.url
        ):
            raise typer.Exit(1)
        return
    found = _clusters(directory)
    if not found:
        _exit_without_cluster(directory, ": penstock cluster start")
    all_answer = True
    for one in found:
        if one.rest is None:
            typer.echo(f"process {one.pid}  is a standby of the cluster with the jobs in {one.directory}")
            continue
        head = f"{one.rest.url}  process {one.pid}"
        try:
            client = RestClient(one.rest.url, one.rest.token())
        except (PenstockError, OSError) as error:
            typer.echo(f"{head}  does not answer: {error}", err=True)
            all_answer = False
            continue
        all_answer = _show(client, head, f"jobs in {one.directory}") and all_answer
    if not all_answer:
        raise typer.Exit(1)


def _show(client: RestClient, head: str, where: str) -> bool:
    """Print slots and jobs of a cluster, and return whether it answers."""
    try:
        slots, jobs = client.get("/overview"), client.get("/submissions")
    except (PenstockError, OSError) as error:
        typer.echo(f"{head}  does not answer: {error}", err=True)
        return False
    free, total = slots["slots-available"], slots["slots-total"]
    typer.echo(f"{head}  {free} of {total} slots are free  {where}")
    for job in jobs:
        typer.echo(f"  {job_line(job)}")
    return True


@cluster.command()
def stop(
    cancel_jobs: Annotated[
        bool, typer.Option("--cancel-jobs", help="Cancel the jobs first. Without this, the next start resumes them.")
    ] = False,
    directory: Directory = None,
    all_clusters: Annotated[
        bool, typer.Option("--all", help="Stop all clusters of this user on this machine.")
    ] = False,
) -> None:
    """Stop the cluster of this user on this machine. If there are several, name one with --dir, or stop --all.

    The next start resumes the jobs from their newest checkpoints.
    """
    if all_clusters and directory is not None:
        raise typer.BadParameter("--all stops the clusters of all directories: leave out --dir", param_hint="--all")
    found = _clusters(directory)
    if not found:
        _exit_without_cluster(directory)
    # A standby belongs to the cluster with the same directory.
    if not all_clusters and len({one.directory for one in found}) > 1:
        _exit_with_several_clusters(found)
    # Standbys first: they would replace a leader that is stopped before them.
    for one in sorted(found, key=lambda one: one.rest is not None):
        left = 0
        try:
            if one.rest is not None:
                left = _jobs_left(one.rest, cancel_jobs)
        except (PenstockError, OSError) as error:
            if cancel_jobs:
                typer.echo(f"cannot cancel the jobs, so the cluster keeps running: {error}", err=True)
                raise typer.Exit(1) from None
            # REST is only used to count the jobs that are left.
            typer.echo(f"the cluster does not answer and is stopped anyway: {error}", err=True)
        _stop(one, left)


def _jobs_left(rest: RestAddress, cancel: bool) -> int:
    """Return how many jobs the next start will resume. With `cancel`, cancel all jobs first."""
    from penstock.service.client.rest_client import RestClient

    client = RestClient(rest.url, rest.token())
    jobs = _open_jobs(client)
    if not cancel:
        return len(jobs)
    for job in jobs:
        # A job with a final status may still be closing its tasks.
        if job["status"] is None:
            client.request("PATCH", f"/submissions/{job['id']}")
    _wait(lambda: not _open_jobs(client), "the jobs did not end")
    return 0


def _stop(cluster: RunningCluster, left: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        os.kill(cluster.pid, signal.SIGTERM)
    _wait(lambda: cluster not in _clusters(), f"process {cluster.pid} did not end")
    more = f"; the next start resumes {left} job{'s'[: left != 1]}" if left else ""
    typer.echo(f"stopped: {'process ' + str(cluster.pid) if cluster.rest is None else cluster.rest.url}{more}")


def _open_jobs(client: RestClient) -> list[dict[str, Any]]:
    return [job for job in client.get("/submissions") if job["phase"] != "ENDED"]


def _wait(happened: Callable[[], bool], otherwise: str) -> None:
    until_s = time.monotonic() + _STOP_S
    while not happened():
        if time.monotonic() > until_s:
            typer.echo(f"{otherwise} within {_STOP_S:.0f} s", err=True)
            raise typer.Exit(1)
        time.sleep(_LOOK_S)


def _exit_without_cluster(directory: Path | None, advice: str = "") -> NoReturn:
    others = _clusters()
    if directory is None or not others:
        typer.echo(f"no cluster is running on this machine{advice}", err=True)
    else:
        known = ", ".join(one.directory for one in others)
        typer.echo(f"no cluster with the jobs in {directory.absolute()} is running; running: {known}", err=True)
    raise typer.Exit(1)


def _exit_with_several_clusters(found: list[RunningCluster]) -> NoReturn:
    typer.echo("several clusters run on this machine: choose one with --dir DIR, or all with --all", err=True)
    for one in found:
        where = "standby" if one.rest is None else one.rest.url
        typer.echo(f"  --dir {shlex.quote(one.directory)}  {where}, process {one.pid}", err=True)
    raise typer.Exit(1)


def _clusters(directory: Path | None = None) -> list[RunningCluster]:
    from penstock.service.cluster.running_cluster import running_clusters

    found = running_clusters()
    return found if directory is None else [one for one in found if one.directory == str(directory.absolute())]
