"""Queries of Nexmark whose workers and JVMs are killed: the files hold each change once.

The final rows are those of a run in this process, in the simulator, where nothing is killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from benchmarks.nexmark_sql import QUERIES, VIEWS, events_table, insertion
from tests.chaos import nexmark_to_files
from tests.chaos.nexmark_to_files import committed, final_rows, line_of, options_of_events
from tests.chaos.processes import MARK, Processes, marked, send
from tests.table.in_process import InProcess
from tests.table.table_tests import need_planner

from penstock.common.types import Row
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.jobmaster.results.result_sinks import ResultSink
from penstock.hosts.simulator import Circumstances
from penstock.table import StreamTableEnvironment
from penstock.table.connector import SinkRequest, TableConnector, TableSink, register_connector

pytestmark = [pytest.mark.own_jvm, pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
PATIENCE_S = 240
SOAK_PATIENCE_S = 900
"""On a busy machine a JVM alone takes two minutes to start again, and windows give rows only when they end."""
WORKER, JVM, EXECUTOR, DRIVER = "worker", "JVM", "executor", "driver"
SETTINGS = {
    "execution.checkpointing.interval": "200ms",
    "execution.checkpointing.tolerable-failed-checkpoints": "100000",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "100000",
    "restart-strategy.fixed-delay.delay": "100ms",
}


class _Lines(ResultSink):
    exactly_once = True

    def __init__(self) -> None:
        self.lines: list[str] = []

    def accept(self, subtask: int, values: list[Row]) -> None:
        self.lines += [line_of(str(row.get_row_kind()), row) for row in values]


class _InMemory(TableConnector):
    def __init__(self) -> None:
        self.received = _Lines()

    def sink(self, request: SinkRequest) -> TableSink:
        return TableSink(results=self.received, parallelism=1)


def expected(name: str, events: int, rate: int) -> Counter[str]:
    """Return the final rows of a run without kills."""
    connector = _InMemory()
    register_connector("changes", connector)
    executor = InProcess(circumstances=Circumstances(jump_rate=0.0))
    env = StreamExecutionEnvironment(executor=executor)
    env.set_parallelism(2)
    tables = StreamTableEnvironment.create(env)
    # The simulator would take a step for nearly each event that is waited for, and give up.
    of_events = options_of_events(events, rate, at_once=True)
    for statement in (events_table(of_events), *VIEWS, *insertion(name, {"connector": "changes", "path": ""})):
        tables.execute_sql(statement)
    assert executor.error is None, executor.error
    return final_rows(connector.received.lines, QUERIES[name])


class KilledQuery:
    """The program, whose user starts it again when its driver was killed. `settings`: more of them.

    `patience_s`: how long it may take until something happens.
    """

    def __init__(
        self, name: str, folder: Path, *, events: int, rate: int, settings: dict[str, str], patience_s: int
    ) -> None:
        self.out = folder / "out"
        self.patience_s = patience_s
        self.killed: list[str] = []
        self._checkpoints = folder / "checkpoints"
        self._log = folder / "log"
        self._settings = {**SETTINGS, **settings, "execution.checkpointing.dir": str(self._checkpoints)}
        self._arguments = [name, str(self.out), "--events", str(events), "--rate", str(rate)]
        self._mark = uuid.uuid4().hex
        self.start()

    def start(self) -> None:
        """Start from the newest checkpoint, if there is one."""
        options = [argument for key, value in self._settings.items() for argument in ("-D", f"{key}={value}")]
        options += ["-s", "latest"] if any(self._checkpoints.glob("*/chk-*/_metadata")) else []
        command = [sys.executable, "-m", "penstock.service.cli.main", "run", *options, nexmark_to_files.__file__]
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        own = {"PYTHONPATH": path, MARK: self._mark, "PYTHONFAULTHANDLER": "1"}
        with self._log.open("a") as log:
            self.driver = subprocess.Popen(
                [*command, *self._arguments],
                stdout=log,
                stderr=log,
                env={**os.environ, **own},
                start_new_session=True,
            )

    def kill(self, kind: str, random: Random) -> bool:
        """Kill one of a kind. False: the job has ended before there was one."""
        processes = Processes(self.driver.pid, self._mark)
        find = {WORKER: processes.workers, JVM: processes.jvms, EXECUTOR: processes.executors}
        found = self.until(find.get(kind, lambda: [self.driver.pid]), f"there is no {kind}")
        if not found or not send(random.choice(found), signal.SIGKILL):
            return False
        self.killed.append(f"{kind} killed with {len(committed(self.out))} changes")
        if kind == DRIVER:
            self.end()
            self.start()
        return True

    def has_more(self) -> Callable[[], bool]:
        """Return a function that tells whether changes were committed since."""
        before = len(committed(self.out))
        return lambda: len(committed(self.out)) > before

    def until(self, happened: Callable[[], Any], what: str) -> Any:
        """Wait for something; None if the job ends before."""
        deadline = time.monotonic() + self.patience_s
        while not (result := happened()):
            if self.driver.poll() is not None:
                return None
            assert time.monotonic() < deadline, f"{what}\n{self.story()}"
            time.sleep(0.05)
        return result

    def story(self) -> str:
        """Return what was done to it, and what it said."""
        return "\n".join([*self.killed, self._log.read_text(errors="replace")[-8_000:]])

    def end(self) -> None:
        """Leave nothing running."""
        while left := marked(self._mark):
            for pid in left:
                send(pid, signal.SIGKILL)
            time.sleep(0.02)
        self.driver.wait()


def check_kills(
    name: str,
    folder: Path,
    kinds: list[str],
    *,
    events: int,
    rate: int,
    settings: dict[str, str],
    patience_s: int = PATIENCE_S,
) -> list[str]:
    """Run a query, kill these one after the other, compare, and return what was killed."""
    need_planner()
    random = Random(name)
    query = KilledQuery(name, folder, events=events, rate=rate, settings=settings, patience_s=patience_s)
    try:
        for kind in kinds:
            # After a commit, and a random part of the time to the next ones.
            if not query.until(query.has_more(), "nothing was committed"):
                break
            time.sleep(random.random() * 0.5)
            if not query.kill(kind, random):
                break
        status = query.driver.wait(patience_s)
        assert status == 0, query.story()
        found, wanted = final_rows(committed(query.out), QUERIES[name]), expected(name, events, rate)
    finally:
        query.end()
    assert wanted
    assert found == wanted, f"missing {wanted - found}, in addition {found - wanted}\n{query.story()}"
    return query.killed


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_query_whose_workers_and_jvm_are_killed(tmp_path: Path) -> None:
    """A join, and an aggregate of an aggregate whose rows retract each other, would have rows twice or not at all."""
    killed = check_kills("q4", tmp_path, [WORKER, JVM], events=900, rate=100, settings={})
    assert killed


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("master", ["local", "cluster"])
@pytest.mark.parametrize("name", ["q4", "q5", "q7", "q9", "q18"])
def test_queries_whose_processes_are_killed(name: str, master: str, tmp_path: Path) -> None:
    """The same for windows, top rows and de-duplication, with more kills, also of executors and the driver."""
    kinds = [WORKER, WORKER, JVM, WORKER, DRIVER, WORKER]
    settings = {"penstock.spark.start-timeout": f"{SOAK_PATIENCE_S} s"}
    if master == "cluster":
        kinds = [WORKER, EXECUTOR, WORKER, EXECUTOR, DRIVER, EXECUTOR]
        settings |= {"spark.master": "local-cluster[2,5,1024]"}
    killed = check_kills(name, tmp_path, kinds, events=12_000, rate=150, settings=settings, patience_s=SOAK_PATIENCE_S)
    assert len(killed) > len(kinds) // 2, killed


def test_changes_that_are_lost_or_doubled_are_found() -> None:
    """All kills would show nothing, whatever came of them."""
    lines = [json.dumps(["+I", 1, 10]), json.dumps(["-U", 1, 10]), json.dumps(["+U", 1, 20])]
    query = QUERIES["q4"]
    assert final_rows(lines, query) == Counter({"[1, 20]": 1})
    assert final_rows([*lines, lines[2]], query) != final_rows(lines, query)
    assert final_rows(lines[:1], query) != final_rows(lines, query)
    with pytest.raises(AssertionError, match="rows that went"):
        final_rows([*lines, lines[1]], query)
