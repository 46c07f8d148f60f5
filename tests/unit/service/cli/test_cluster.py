"""`penstock cluster`, without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.service.cli.main import app
from penstock.service.cluster.rest_address import RestAddress
from penstock.service.cluster.running_cluster import RunningCluster, announce, withdraw


@pytest.mark.parametrize("more", [[], ["--foreground"]])
def test_a_folder_that_can_not_be_written_to_is_told_before_spark_starts(tmp_path: Path, more: list[str]) -> None:
    """A user would read where in penstock it has failed, and not what to change."""
    (tmp_path / "file").write_text("in the way")
    result = CliRunner().invoke(app, ["cluster", "start", "--dir", str(tmp_path / "file" / "jobs"), *more])

    assert result.exit_code == 2
    assert "Invalid value for --dir" in result.output
    assert "Not a directory" in result.output


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["high-availability.type=zookeper"], "zookeper"),
        (["high-availability.filesystem.lease-duration=1 fortnight"], "fortnight"),
        (["parallelism.default=2"], "is a setting of jobs"),
    ],
)
def test_a_wrong_setting_is_told_before_spark_starts(tmp_path: Path, settings: list[str], said: str) -> None:
    """A user would find it in the log of a process, after ten seconds."""
    words = [word for setting in settings for word in ("-D", setting)]
    result = CliRunner().invoke(app, ["cluster", "start", "--dir", str(tmp_path), *words])

    assert result.exit_code == 2
    assert "Invalid value for -D" in result.output
    assert said in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "slots can be added on a Spark cluster only"),
        (["--master", "spark://127.0.0.1:9"], "spark.executor.cores=4"),
        (
            ["--master", "yarn", "-D", "spark.executor.cores=3"],
            "expected a multiple of 3 (the slots of an executor) from --slots (2) on, got 8",
        ),
        (["--master", "yarn", "-D", "spark.executor.cores=4", "--slots", "9"], "from --slots (9) on"),
    ],
)
def test_slots_that_can_not_come_later_are_told_before_spark_starts(
    tmp_path: Path, words: list[str], said: str
) -> None:
    """A user would wait for executors that Spark never gives."""
    command = ["cluster", "start", "--dir", str(tmp_path), "--max-slots", "8", "--slots", "2", *words]
    result = CliRunner().invoke(app, command)

    assert result.exit_code == 2
    assert "Invalid value for --max-slots" in result.output
    assert said in " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize("command", [["cluster", "status"], ["list"]])
def test_a_cluster_that_can_not_be_asked(command: list[str]) -> None:
    """A user would be shown this machine's jobs, and take them for those of the cluster."""
    result = CliRunner().invoke(app, [*command, "-D", "high-availability.type=filesystem"])

    assert result.exit_code == 1
    assert "high-availability.storageDir is not set" in result.output


def test_a_port_that_is_none_is_told_before_spark_starts(tmp_path: Path) -> None:
    """A user would wait for Spark to read it."""
    result = CliRunner().invoke(app, ["cluster", "start", "--dir", str(tmp_path), "--rest-port", "808x"])
    assert result.exit_code == 2
    assert "Invalid value for --rest-port" in result.output and "got '808x'" in result.output


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of a cluster that runs as this process."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    announce(RunningCluster(os.getpid(), str(tmp_path / "jobs"), None))
    yield tmp_path / "jobs"
    withdraw(os.getpid())


@pytest.mark.parametrize("command", ["status", "stop"])
def test_a_directory_without_a_cluster_is_told_from_a_machine_without(running: Path, command: str) -> None:
    """Who has mistyped the directory would start a second cluster beside the one that runs."""
    result = CliRunner().invoke(app, ["cluster", command, "--dir", str(running.with_name("other"))])
    assert result.exit_code == 1
    assert f"no cluster with the jobs in {running.with_name('other')} is running" in result.output
    assert str(running) in result.output


@pytest.fixture
def silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """The process of a cluster, whose REST does not answer."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "token").write_text("abc")
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    rest = RestAddress("http://127.0.0.1:9", str(tmp_path / "token"))
    announce(RunningCluster(process.pid, str(tmp_path / "jobs"), rest))
    # Its end is seen only by who waits for it.
    threading.Thread(target=process.wait, daemon=True).start()
    yield process
    process.kill()
    withdraw(process.pid)


def test_a_cluster_that_does_not_answer_is_stopped_nevertheless(silent: subprocess.Popen[bytes]) -> None:
    """A certificate that has expired, or a server that hangs, would be told by a traceback, and the cluster go on."""
    result = CliRunner().invoke(app, ["cluster", "status"])
    assert result.exit_code == 1 and "does not answer" in result.output
    result = CliRunner().invoke(app, ["cluster", "stop", "--cancel-jobs"])
    assert result.exit_code == 1 and "cannot cancel the jobs, so the cluster keeps running" in result.output
    assert silent.poll() is None
    result = CliRunner().invoke(app, ["cluster", "stop"])
    assert result.exit_code == 0 and "stopped: http://127.0.0.1:9" in result.output
    assert silent.wait(10) < 0


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes of two clusters, in the folders 0 and 1."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    processes = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(2)]
    for number, process in enumerate(processes):
        announce(RunningCluster(process.pid, str(tmp_path / str(number)), None))
        # Its end is seen only by who waits for it.
        threading.Thread(target=process.wait, daemon=True).start()
    yield processes
    for process in processes:
        process.kill()
        withdraw(process.pid)


def test_of_several_clusters_none_is_stopped_unnamed(several: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    """Who means the one that he has started would stop those of his other programs as well."""
    refused = CliRunner().invoke(app, ["cluster", "stop"])
    assert refused.exit_code == 1 and "with --dir DIR, or all with --all" in refused.output
    assert all(f"--dir {tmp_path / str(number)} " in refused.output for number in range(2))
    assert [process.poll() for process in several] == [None, None]

    named = CliRunner().invoke(app, ["cluster", "stop", "--dir", str(tmp_path / "1")])
    assert named.exit_code == 0 and several[1].wait(10) < 0
    assert several[0].poll() is None
    only = CliRunner().invoke(app, ["cluster", "stop"])
    assert only.exit_code == 0 and several[0].wait(10) < 0


def test_all_clusters_are_stopped_if_that_is_said(several: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    """Each would have to be named by its directory."""
    both = CliRunner().invoke(app, ["cluster", "stop", "--all", "--dir", str(tmp_path / "1")])
    assert both.exit_code == 2 and "leave out --dir" in both.output
    assert CliRunner().invoke(app, ["cluster", "stop", "--all"]).exit_code == 0
    assert all(process.wait(10) < 0 for process in several)
