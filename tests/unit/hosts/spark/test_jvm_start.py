"""The start of a JVM that ends, or does nothing: an error that says so, and nothing is left. Scripts are the JVMs."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark import java_gateway

from penstock.common.errors import SparkLostError
from penstock.hosts.spark.internals.jvm_start import JvmStart, StartedJvm

PATIENCE_S = 60


@pytest.fixture(name="java")
def _java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the script that Spark starts as its JVM."""
    script = tmp_path / "bin" / "spark-submit"
    script.parent.mkdir()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))

    def write(text: str) -> None:
        script.write_text(f"#!/bin/sh\necho $$ > {tmp_path / 'pid'}\n{text}\n")
        script.chmod(0o755)

    return write


def launch(within_s: float = PATIENCE_S) -> str:
    """The error of a start; its process has ended."""
    start = JvmStart()
    with pytest.raises(SparkLostError) as raised, start.within(within_s):
        start.launch({"spark.master": "local"})
    start.kill()
    return str(raised.value)


def gone(folder: Path) -> bool:
    try:
        os.kill(int((folder / "pid").read_text()), 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        ("kill -9 $$", r"was killed while it started \(signal 9.*memory.*\n.*spark\.driver\.memory"),
        ("exit 1", r"ended with exit code 1 while it started.*\n.*JAVA_HOME"),
        ("exit 0", r"ended with exit code 0 while it started.*\n.*JAVA_HOME"),
    ],
)
def test_a_jvm_that_ends_while_it_starts_is_an_error_with_a_remedy(
    java: Any, tmp_path: Path, ends: str, says: str
) -> None:
    """A user would get a traceback of PySpark's, or wait forever for a JVM that has ended."""
    java(ends)
    text = launch()
    assert re.search(says, text), text
    assert gone(tmp_path)


@pytest.mark.parametrize("stands", ["kill -STOP $$", "exec sleep 600"])
def test_a_jvm_that_does_not_start_is_ended(java: Any, tmp_path: Path, stands: str) -> None:
    """A job would wait forever, and its restart strategy would never apply."""
    java(stands)
    assert "did not start within 0.5 s, and was ended" in launch(0.5)
    assert gone(tmp_path)


def test_a_jvm_that_is_suspended_after_writing_its_port_is_ended(java: Any, tmp_path: Path) -> None:
    """The calls into it would wait forever: the kernel takes the connection for a process that is stopped."""
    java(
        f"""exec {sys.executable} - <<'END'
import os, signal, socket, struct
listener = socket.create_server(("127.0.0.1", 0))
path = os.environ["_PYSPARK_DRIVER_CONN_INFO_PATH"]
with open(path + ".new", "wb") as file:
    file.write(struct.pack("!ii", listener.getsockname()[1], 6) + b"secret")
os.rename(path + ".new", path)
os.kill(os.getpid(), signal.SIGSTOP)
END"""
    )
    assert "did not start within 3 s" in launch(3)
    assert gone(tmp_path)


def test_the_keeper_of_a_jvm_ends_with_a_start_that_fails(java: Any, tmp_path: Path) -> None:
    """A keeper without a JVM would stay on the machine of its user for good."""
    java("exit 0")
    with pytest.raises(SparkLostError):
        StartedJvm({})
    assert gone(tmp_path)


def test_an_error_of_a_jvm_that_runs_keeps_its_name() -> None:
    """A wrong setting would look like a lost JVM, and be tried again."""
    with pytest.raises(ValueError, match="a setting"), JvmStart().within(PATIENCE_S):
        raise ValueError("a setting")


def test_a_jvm_of_another_process_is_ended_by_that() -> None:
    """A kept JVM that is stuck would block each program that gets it."""
    ended = threading.Event()
    with pytest.raises(SparkLostError, match="did not start"), JvmStart(ended.set).within(0.01):
        assert ended.wait(PATIENCE_S)


def test_assumption_launch() -> None:
    """A JVM that was stopped while it started would block its program forever."""
    module: Any = java_gateway
    assert module.Popen is subprocess.Popen, "and each start has put it back"
    source = ast.parse(Path(java_gateway.__file__).read_text(encoding="utf-8"))
    (launcher,) = [n for n in source.body if isinstance(n, ast.FunctionDef) and n.name == "launch_gateway"]
    (loop,) = [node for node in ast.walk(launcher) if isinstance(node, ast.While)]
    assert ast.unparse(loop.test) == "not proc.poll() and (not os.path.isfile(conn_info_file))"
