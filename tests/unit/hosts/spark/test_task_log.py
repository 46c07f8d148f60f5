"""What functions print and log in a worker."""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.operators.operator import Operator
from penstock.hosts.logs.settings import LoggedJob, LogSettings
from penstock.hosts.spark.worker.task_log import TaskLog

ID = "0123456789abcdef0123456789abcdef"


class Calling(Operator):
    """Calls a function, as one around a user's function."""

    def __init__(self, function: Any) -> None:
        super().__init__("map")
        self.context = SimpleNamespace(info=SimpleNamespace(subtask=1, parallelism=4))  # type: ignore[assignment]
        self._function = function

    def process(self, chunk: Rows) -> bool:
        values = chunk.values
        return all(self._function(value) is None for value in values)


@contextmanager
def task_log(
    folder: Path, level: int = logging.INFO, place: str = "", logs: list[TaskLog] | None = None
) -> Iterator[io.StringIO]:
    """A worker's log, with a terminal. `logs`: is given the log."""
    terminal = io.StringIO()
    before = sys.stdout, sys.stderr
    sys.stdout = sys.stderr = terminal
    settings = LogSettings(LoggedJob(ID, "job", 0), str(folder / ID), level, 1 << 20, 2, 20, place)
    log = TaskLog(settings, 1, [3])
    if logs is not None:
        logs.append(log)
    log.open()
    try:
        yield terminal
    finally:
        log.close()
        assert sys.stdout is terminal
        sys.stdout, sys.stderr = before


def lines_of(folder: Path) -> list[str]:
    text = (folder / ID / "level-1-slot-3.log").read_text()
    return [re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ", "", line) for line in text.splitlines()]


def test_penstocks_own_lines_are_only_in_the_file(tmp_path: Path) -> None:
    """A restart of sixty subtasks would print sixty lines about bytes of state between the user's own."""
    with task_log(tmp_path) as terminal:
        logging.getLogger("penstock.hosts.spark.worker").info("restored 7 bytes")
        logging.getLogger("penstock.hosts.spark.worker").warning("slow")
        logging.getLogger("penstock_examples").info("a user's")
    assert terminal.getvalue().splitlines() == [
        "[level 1 slot 3] WARNING penstock.hosts.spark.worker: slow",
        "[level 1 slot 3] INFO penstock_examples: a user's",
    ]
    assert "INFO    [01234567 level 1 slot 3] penstock.hosts.spark.worker - restored 7 bytes" in lines_of(tmp_path)


def test_lines_are_marked_with_job_operator_and_subtask(tmp_path: Path) -> None:
    """With sixty subtasks, a line without its place says nothing."""
    with task_log(tmp_path) as terminal:
        Calling(print).process(Rows(["seven", "eight"]))
        Calling(logging.getLogger("my.job").warning).process(Rows(["odd"]))
        print("outside")

    assert lines_of(tmp_path) == [
        "INFO    [01234567 map (2/4)] stdout - seven",
        "INFO    [01234567 map (2/4)] stdout - eight",
        "WARNING [01234567 map (2/4)] my.job - odd",
        "INFO    [01234567 level 1 slot 3] stdout - outside",
    ]
    assert terminal.getvalue().splitlines() == [
        "[map (2/4)] seven",
        "[map (2/4)] eight",
        "[map (2/4)] WARNING my.job: odd",
        "[level 1 slot 3] outside",
    ]


def test_a_line_is_written_when_it_ends(tmp_path: Path) -> None:
    """`print(end="")` would break lines anywhere; what was begun when the task ends would be lost."""
    with task_log(tmp_path):
        print("a", end="")
        print("b", end="", flush=True)
        assert lines_of(tmp_path) == []
        print("c\nd", end="")
        assert len(lines_of(tmp_path)) == 1

    assert [line.rpartition(" - ")[2] for line in lines_of(tmp_path)] == ["abc", "d"]


def test_levels_apply_to_logging_but_not_to_print(tmp_path: Path) -> None:
    """A print that vanishes because of a level is looked for in the wrong place."""
    with task_log(tmp_path, logging.ERROR):
        logging.getLogger("my.job").warning("unimportant")
        logging.getLogger("my.job").error("important")
        print("printed")
        print("printed, too", file=sys.stderr)

    assert [line.rpartition(" - ")[2] for line in lines_of(tmp_path)] == ["important", "printed", "printed, too"]


def test_a_malformed_message_is_reported_and_ends_nothing(tmp_path: Path) -> None:
    """A forgotten argument in a rare warning would fail the job."""
    with task_log(tmp_path):
        logging.getLogger("my.job").warning("%d", "seven")

    assert "not all arguments converted" in (text := "\n".join(lines_of(tmp_path))) or "TypeError" in text


def test_handlers_that_were_there_come_back(tmp_path: Path) -> None:
    """A worker that Spark uses again would write into the folder of the job before."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    with task_log(tmp_path):
        assert root.level == logging.INFO

    assert (root.handlers, root.level) == before


def test_without_a_folder_lines_stay_on_the_terminal(tmp_path: Path) -> None:
    """A full or read-only disk would lose what functions print, or fail the job."""
    (tmp_path / ID).write_text("")
    with task_log(tmp_path) as terminal:
        print("hello")

    assert terminal.getvalue() == "[level 1 slot 3] hello\n"


def test_a_closed_terminal_fails_nothing(tmp_path: Path) -> None:
    """A job whose terminal was closed would fail at its next print."""
    with task_log(tmp_path) as terminal:
        terminal.write = lambda text: (_ for _ in ()).throw(BrokenPipeError())  # type: ignore[method-assign]
        print("hello")

    assert lines_of(tmp_path) == ["INFO    [01234567 level 1 slot 3] stdout - hello"]


def test_without_settings_nothing_changes(capsys: pytest.CaptureFixture[str]) -> None:
    """A session of a job without logs works as ever."""
    log = TaskLog(None, 0, [0])
    log.open()
    print("hello")
    log.close()

    assert capsys.readouterr().out == "hello\n"


def test_lines_of_another_machine_are_for_the_driver(tmp_path: Path) -> None:
    """Logs of workers would have to be looked for on each machine, and be gone with one that is given back."""
    logs: list[TaskLog] = []
    with task_log(tmp_path, place="of the driver", logs=logs):
        print("seven")
        assert logs[0].drain_remote_lines(3).endswith(" INFO    [01234567 level 1 slot 3] stdout - seven")
        assert logs[0].drain_remote_lines(3) == ""
        for _ in range(3):
            print("x" * 30_000)
        first, second, missing = logs[0].drain_remote_lines(3).splitlines()
        assert first.endswith("x" * 30_000) and second.endswith("x" * 30_000)
        assert missing.startswith(f"... 1 more lines in {tmp_path / ID}/level-1-slot-3.log on ")
    assert len(lines_of(tmp_path)) == 4, "the machine has all of them"


def test_a_folder_that_the_driver_sees_is_not_sent(tmp_path: Path) -> None:
    """Each line of a worker on the driver's machine, or on a shared disk, would be in the file twice."""
    (tmp_path / ID).mkdir()
    (tmp_path / ID / "place").write_text("of the driver")
    logs: list[TaskLog] = []
    with task_log(tmp_path, place="of the driver", logs=logs):
        print("seven")
        assert logs[0].drain_remote_lines(3) == ""
