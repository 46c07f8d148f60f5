"""`penstock sql` as a user types it, with Spark behind it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.table.planner.errors import PlannerError
from penstock.table.planner.planner import shared_process

pytestmark = pytest.mark.e2e
PENSTOCK = str(Path(sys.executable).with_name("penstock"))
SCRIPT = """
CREATE TABLE flights (airport STRING, delay INT)
WITH ('connector' = 'filesystem', 'path' = 'flights.json', 'format' = 'json');
CREATE TABLE late (airport STRING, delay INT)
WITH ('connector' = 'filesystem', 'path' = 'late', 'format' = 'csv');
INSERT INTO late SELECT * FROM flights WHERE delay > 10;
SELECT airport, SUM(delay) AS delay FROM flights GROUP BY airport;
SELECT airprt FROM flights;
"""
FLIGHTS = '{"airport": "JFK", "delay": 20}\n{"airport": "EWR", "delay": 5}\n{"airport": "JFK", "delay": 40}\n'


def test_a_script_writes_files_prints_rows_and_names_its_mistake(tmp_path: Path) -> None:
    """An error in the last statement would hide what the others did, or the place would be missing."""
    try:
        shared_process()
    except PlannerError as error:
        pytest.skip(f"Flink's planner can't be had here: {error}")
    (tmp_path / "flights.json").write_text(FLIGHTS)
    (tmp_path / "a.sql").write_text(SCRIPT)
    command = [PENSTOCK, "sql", "-p", "1", "-o", "json", "-f", "a.sql"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, cwd=tmp_path)
    changes = [json.loads(line) for line in done.stdout.splitlines()]
    assert [change["row"] for change in changes if change["op"] == "+U"] == [{"airport": "JFK", "delay": 60}]
    assert done.returncode == 1
    assert "a.sql, line 8, column 8: " in done.stderr and "'airprt'" in done.stderr
    assert "org.apache" not in done.stderr

    shutil.rmtree(tmp_path / "late", ignore_errors=True)
    (tmp_path / "a.sql").write_text(SCRIPT.rpartition("SELECT airprt")[0])
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line for file in (tmp_path / "late").glob("part-*") for line in file.read_text().splitlines()]
    assert sorted(lines) == ["JFK,20", "JFK,40"]
