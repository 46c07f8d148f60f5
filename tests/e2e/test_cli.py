"""The command as a user types it, with Spark behind it."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

import penstock
from penstock.service.cli.main import app

pytestmark = pytest.mark.e2e
PENSTOCK = str(Path(sys.executable).with_name("penstock"))
EXAMPLES = Path(__file__).parents[2] / "examples"
WORD_COUNT = """
from penstock.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
lines = env.from_collection(["to be or not to be", "that is the question"])
words = lines.flat_map(str.split).map(lambda word: (word, 1))
counts = words.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
counts.print()
env.execute("word count")
"""
ENDLESS = """
import sys
from penstock.common import WatermarkStrategy
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.datastream import MapFunction, StreamExecutionEnvironment


class Closing(MapFunction):
    def __init__(self, folder):
        self.folder = folder

    def open(self, ctx):
        self.path = f"{self.folder}/closed-{ctx.get_index_of_this_subtask()}"

    def map(self, value):
        return value

    def close(self):
        open(self.path, "w").close()


env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
numbers = env.from_source(DataGeneratorSource(lambda i: i), WatermarkStrategy.no_watermarks(), "endless")
numbers.key_by(lambda v: v % 10).map(Closing(sys.argv[1])).filter(lambda v: v == 100).print("alive")
env.execute("endless")
print("never reached")
"""


def penstock_command(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PENSTOCK, *arguments], capture_output=True, text=True, timeout=180, cwd=folder)


def test_version() -> None:
    """A bug report without versions can't be worked on."""
    done = penstock_command("version")

    assert done.returncode == 0
    assert f"penstock {penstock.__version__}" in done.stdout
    assert re.search(r"Spark +4\.3", done.stdout)


@pytest.mark.soak
def test_run_word_count_in_batch_mode(tmp_path: Path) -> None:
    """A word count would print other counts in batch mode, or print them with subtasks in front."""
    (tmp_path / "count.py").write_text(WORD_COUNT)
    batched = penstock_command("run", "-D", "execution.runtime-mode=BATCH", "count.py", folder=tmp_path)
    lines = batched.stdout.splitlines()
    assert sorted(lines) == sorted(
        f"('{w}', {2 if w in ('to', 'be') else 1})" for w in ("to", "be", "or", "not", "that", "is", "the", "question")
    ), batched.stderr


def test_errors_of_a_job_are_short(tmp_path: Path) -> None:
    """A typing mistake in a lambda brings up two hundred lines of Java."""
    (tmp_path / "count.py").write_text(WORD_COUNT.replace("(word, 1)", "(word, 1 / 0)"))
    done = penstock_command("run", "count.py", folder=tmp_path)

    assert done.returncode == 1
    assert "penstock.UserFunctionError: operator 'Map'" in done.stderr
    assert "ZeroDivisionError" in done.stderr
    assert "1 / 0" in done.stderr, "the user's own line"
    assert "org.apache" not in done.stderr
    assert "value 'to'" in done.stderr


def examples() -> list[Path]:
    return sorted(path for path in EXAMPLES.glob("*.py") if not path.name.startswith("_"))


@pytest.mark.parametrize("example", examples(), ids=lambda path: path.stem)
def test_explain_examples(example: Path) -> None:
    """An example that can't even be planned teaches nothing."""
    done = CliRunner().invoke(app, ["explain", str(example)])

    assert done.exit_code == 0, done.output
    assert re.search(r"\d+ slots? in STREAMING mode", done.stdout), done.stdout


@pytest.mark.soak
def test_explain_as_a_command(tmp_path: Path) -> None:
    """The same, typed."""
    (tmp_path / "count.py").write_text(WORD_COUNT)
    done = penstock_command("explain", "count.py", folder=tmp_path)

    assert done.returncode == 0, done.stderr
    assert re.search(r"\d+ slots? in STREAMING mode", done.stdout), done.stdout


def below(root: int) -> list[tuple[int, str]]:
    lines = subprocess.check_output(["ps", "-ww", "-eo", "pid=,ppid=,args="], text=True).splitlines()
    everyone = [(int(pid), int(parent), command) for pid, parent, command in (line.split(None, 2) for line in lines)]
    found, waiting = [], [root]
    while waiting:
        parent = waiting.pop()
        for pid, its_parent, command in everyone:
            if its_parent == parent:
                found.append((pid, command))
                waiting.append(pid)
    return found


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout
    return not state.startswith("Z")


@contextmanager
def endless_job(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A job that runs, in a session of its own as a terminal gives it, until its first result has come."""
    script = folder / "endless.py"
    script.write_text(ENDLESS)
    process = subprocess.Popen(
        [PENSTOCK, "run", str(script), str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("alive"), line + (process.stderr.read() if process.stderr else "")
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.own_jvm
@pytest.mark.parametrize("whom", ["the process", pytest.param("the terminal's group", marks=pytest.mark.soak)])
def test_ctrl_c(whom: str, tmp_path: Path) -> None:
    """Ctrl-C leaves a JVM and its workers running, or functions without their close()."""
    with endless_job(tmp_path) as process:
        left = below(process.pid)
        assert len(left) >= 4, "a JVM, a daemon and workers"
        started = time.monotonic()
        if whom == "the process":
            process.send_signal(signal.SIGINT)
        else:
            os.killpg(process.pid, signal.SIGINT)
        out, error = process.communicate(timeout=60)
        print(f"ended in {time.monotonic() - started:.1f} s")

    assert "never reached" not in out
    assert process.returncode != 0
    assert not any(word in error for word in ("org.apache", "py4j", "Traceback")), error
    assert "'endless' canceled after" in error
    assert (tmp_path / "closed-0").exists() and (tmp_path / "closed-1").exists(), "close() was called"
    all_end(left)


def all_end(processes: list[tuple[int, str]]) -> None:
    deadline = time.monotonic() + 30
    while alive := [(pid, command[:100]) for pid, command in processes if is_alive(pid)]:
        assert time.monotonic() < deadline, f"still there: {alive}"
        time.sleep(0.1)


def error_line(process: subprocess.Popen[str], part: str) -> str:
    """The next line of standard error with this part."""
    assert process.stderr is not None
    for line in process.stderr:
        if part in line:
            return line
    raise AssertionError(f"{part!r} was not written")


@pytest.mark.own_jvm
def test_ctrl_c_twice(tmp_path: Path) -> None:
    """Who presses Ctrl-C again gets a traceback, and does not know what is left behind."""
    with endless_job(tmp_path) as process:
        left = below(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        assert "Press Ctrl-C again" in error_line(process, "Ctrl-C")
        os.killpg(process.pid, signal.SIGINT)
        out, error = process.communicate(timeout=60)

    assert process.returncode == 130
    assert "never reached" not in out
    assert "Traceback" not in error
    all_end(left)


@pytest.mark.own_jvm
def test_ctrl_c_while_spark_starts(tmp_path: Path) -> None:
    """A job that was started by mistake ends with a traceback, or its JVM stays."""
    script = tmp_path / "count.py"
    script.write_text(WORD_COUNT)
    process = subprocess.Popen(
        [PENSTOCK, "run", str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    error_line(process, "'word count' starts: STREAMING, 2 slots")
    deadline = time.monotonic() + 30
    while not (left := below(process.pid)):
        assert time.monotonic() < deadline, "no JVM has started"
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, error = process.communicate(timeout=60)

    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in error
    all_end(left)


def test_a_run_can_be_seen(tmp_path: Path) -> None:
    """A user at a terminal would look at a silent screen for seconds, and not know whether anything happens."""
    (tmp_path / "count.py").write_text(WORD_COUNT)
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(tmp_path)
        os.environ["TERM"] = "xterm"
        os.execv(PENSTOCK, [PENSTOCK, "run", "count.py"])
    written = b""
    # The end of a terminal is an error of input and output.
    with contextlib.suppress(OSError):
        while data := os.read(terminal, 65536):
            written += data
    os.waitpid(process, 0)
    text = written.decode()

    assert re.search(r"job [0-9a-f]{32} 'word count' starts: STREAMING, 2 slots\r\n", text), text
    assert len(set(re.findall(r"\r\x1b\[K[0-9a-f]{8} 'word count' starting (\d+\.\d) s", text))) > 1, text
    assert "('question', 1)\r\n" in text
    assert re.search(r"job [0-9a-f]{8} 'word count' finished after \d+\.\d s: 2 records in, 10 out\r\n$", text), text
