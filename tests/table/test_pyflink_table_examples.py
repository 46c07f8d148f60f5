"""PyFlink's examples of tables, unchanged: `pyflink` is penstock by the hook that `penstock run` installs.

They are those of an installed PyFlink: `make bench-peers` installs one in .venv-peers. Without it these tests are
skipped; tests/table/test_table_api.py and test_table_streams.py have the same calls.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from penstock.table.planner.errors import PlannerError
from penstock.table.planner.planner import shared_process

ROOT = Path(__file__).parents[2]
EXAMPLES = next(ROOT.glob(".venv-peers/pyflink/lib/python*/site-packages/pyflink/examples"), None)
PASSED = {
    "table/mixing_use_of_datastream_and_table.py": 10,
    "table/multi_sink.py": 5,
    "table/pandas/conversion_from_dataframe.py": 14,
    "table/process_json_data.py": 4,
    "table/process_json_data_with_udf.py": 4,
    "table/windowing/session_window.py": 3,
    "table/windowing/sliding_window.py": 12,
    "table/windowing/tumble_window.py": 5,
    "table/word_count.py": 356,
}
"""Examples without a server that end by themselves, and how many lines they print.

Of the words, three lines before them, one for each word, and another one for each that is not its first.
"""
FUNCTIONS = ("basic_operations", "sql_operations", "column_operations")
"""The functions of table/basic_operations.py but the last, which has aggregate functions in Python."""
BASIC = "table/basic_operations.py"
RUN = """
import os, sys, traceback
from penstock.common.doors import pyflink_alias
pyflink_alias.install()
from tests.table.in_process import InProcess
from penstock.common import Configuration
from penstock.service.client.context_environment import ContextEnvironment, as_context
import runpy

def run(path, names):
    executor = InProcess()
    with as_context(ContextEnvironment(Configuration(), executor)):
        found = runpy.run_path(path, run_name="example" if names else "__main__")
        for name in names:
            found[name]()
    if executor.error is not None:
        raise executor.error

folder, separator, *examples = sys.argv[1:]
for example in examples:
    name, _, functions = example.partition(":")
    print(separator, name, sep="", flush=True)
    try:
        run(os.path.join(folder, name), functions.split(",") if functions else [])
    except Exception:
        traceback.print_exc(file=sys.stdout)
    sys.stdout.flush()
"""
SEPARATOR = "-- example -- "


@pytest.fixture(scope="module")
def examples() -> Path:
    """The folder of the examples."""
    if EXAMPLES is None:
        pytest.skip("PyFlink is not installed in .venv-peers: `make bench-peers` installs it")
    try:
        shared_process()
    except PlannerError as error:
        pytest.skip(f"Flink's planner can't be had here: {error}")
    return EXAMPLES


@pytest.fixture(scope="module")
def printed(examples: Path) -> dict[str, list[str]]:
    """The lines that each example, or some of its functions, prints. One process, and one planner, run all of them."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    command = [sys.executable, "-c", RUN, str(examples), SEPARATOR, *PASSED, f"{BASIC}:{','.join(FUNCTIONS)}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    _, *parts = result.stdout.split(SEPARATOR)
    return {name: lines for name, *lines in map(str.splitlines, parts)}


@pytest.mark.parametrize("name", PASSED)
def test_examples_run_to_their_end(printed: dict[str, list[str]], name: str) -> None:
    """A program for PyFlink would have to be changed."""
    lines = printed[name]
    assert len(lines) == PASSED[name], "\n".join(lines)


def test_basic_operations_print_what_pyflinks_comments_say(examples: Path, printed: dict[str, list[str]]) -> None:
    """Results would differ from those of Flink."""
    path = examples / BASIC
    source = path.read_text()
    functions = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    lines = source.splitlines()
    expected: Counter[str] = Counter()
    for name in FUNCTIONS:
        node = functions[name]
        for line in lines[node.lineno - 1 : node.end_lineno]:
            text = line.strip().removeprefix("# ")
            if line.strip().startswith("# |") and "| op |" not in line:
                expected[text] += 1
    assert expected
    found = Counter(line for line in printed[BASIC] if line.startswith("|") and "| op |" not in line)
    missing = expected - found
    assert not missing, "\n".join(missing)
