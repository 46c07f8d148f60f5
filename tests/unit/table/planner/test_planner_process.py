"""The planner's process, here one of Python: what happens when it does not start, ends, or does not answer."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.table.planner.errors import PlannerError, SqlError
from penstock.table.planner.planner import Planner
from penstock.table.planner.planner_process import PlannerProcess

ANSWERS = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request.get("sql") == "end":
        print("out of memory", file=sys.stderr)
        sys.exit(3)
    if request.get("sql") == "sleep":
        import time
        time.sleep(60)
    if request.get("sql") == "refuse":
        cause = {"class": "x.ValidationException", "message": "SQL validation failed. no", "at": "x"}
        print(json.dumps({"ok": False, "causes": [cause]}), flush=True)
        continue
    print(json.dumps({"ok": True, "columns": ["asked"], "rows": [[json.dumps(request)]]}), flush=True)
"""


def answering(timeout_s: float = 30.0) -> PlannerProcess:
    return PlannerProcess([sys.executable, "-c", ANSWERS], timeout_s=timeout_s)


def test_nothing_starts_before_it_is_needed() -> None:
    """Importing and composing would cost a JVM."""
    process = answering()
    Planner(process=process)
    assert process.pid is None
    assert process.started == 0


def test_one_process_for_all_statements_and_environments() -> None:
    """Each statement would take the seconds of a start."""
    process = answering()
    Planner(process=process).execute("SHOW TABLES")
    pid = process.pid
    Planner(process=process).execute("SHOW VIEWS")
    assert process.pid == pid
    process.close()
    assert process.pid is None


def test_a_process_that_ends() -> None:
    """A program would wait for ever, or not learn why."""
    planner = Planner(process=answering())
    with pytest.raises(PlannerError, match=r"has ended. Try again: .*\. It said:\nout of memory"):
        planner.execute("end")


def test_another_process_is_told_what_was_said_before() -> None:
    """Tables would be lost with the process."""
    process = answering()
    planner = Planner({"a": "b"}, process)
    planner.execute("CREATE TABLE t (a INT)")
    process.close()
    asked = planner.execute("SHOW TABLES").rows[0][0]
    assert process.started == 2
    assert '"SHOW TABLES"' in str(asked)


def test_a_statement_that_takes_too_long() -> None:
    """A plan that never ends would hold the program."""
    process = answering(timeout_s=0.5)
    with pytest.raises(PlannerError, match=r"did not answer within 0.5 s"):
        Planner(process=process).execute("sleep")
    assert process.pid is None


def test_a_refusal_leaves_the_process() -> None:
    """A mistake in a statement would cost a start, and all tables."""
    process = answering()
    planner = Planner(process=process)
    with pytest.raises(SqlError, match=r"SQL validation failed\. no"):
        planner.execute("refuse")
    pid = process.pid
    planner.execute("SHOW TABLES")
    assert process.pid == pid
    process.close()


def test_a_program_that_is_not_there() -> None:
    """The error would be one of Python's."""
    with pytest.raises(PlannerError, match=r"does not start: .*no-such-java"):
        PlannerProcess(["/no-such-java"]).start()


def test_a_fork_has_a_process_of_its_own() -> None:
    """Two programs would read each other's answers."""
    process = answering()
    process.request("open")
    pid = process.pid
    child = os.fork()
    if not child:
        try:
            process.request("open")
            os._exit(7 if process.pid != pid else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    process.request("open")
    assert (process.pid, process.started) == (pid, 1)
    process.close()


def test_it_ends_with_its_program(tmp_path: Path) -> None:
    """Each program that is killed would leave a JVM behind."""
    program = f"""
import sys, time
from penstock.table.planner.planner_process import PlannerProcess
process = PlannerProcess([sys.executable, "-c", {ANSWERS!r}])
process.request("open")
print(process.pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        pid = int(started.stdout.readline())
        started.kill()
    until_s = time.monotonic() + 20
    while _runs(pid) and time.monotonic() < until_s:
        os.sched_yield()
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_questions_are_not_repeated() -> None:
    """A program that lists its tables each second would keep each of these statements, and hash them for each query."""
    asked: list[str] = []

    class Recorded(PlannerProcess):
        def request(self, operation: str, **more: Any) -> Any:
            asked.append(more.get("sql", operation))
            return super().request(operation, **more)

    process = Recorded([sys.executable, "-c", ANSWERS], timeout_s=30.0)
    planner = Planner(process=process)
    changes = ["CREATE TABLE t (n INT)", "SET 'a' = 'b'", "SHOWN"]
    for sql in (*changes, "SHOW TABLES", "DESCRIBE t", "set;", " /* all */ SET", "desc t", "EXPLAIN SELECT 1"):
        planner.execute(sql)
    with pytest.raises(PlannerError):
        planner.execute("end")
    asked.clear()
    planner.execute("SHOW VIEWS")
    assert asked == ["open", *changes, "SHOW VIEWS"]
    process.close()
