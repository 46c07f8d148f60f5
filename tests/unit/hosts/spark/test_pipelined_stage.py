"""The host of a slot over a transport of the test's own, in a process that ends with the query, as a worker does."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[4]

PROGRAM = """
import sys, time
from pathlib import Path
import cloudpickle, zmq
from penstock.common import WatermarkStrategy
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.engine.runtime.execution_mode import STREAMING
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.stream_graph import GraphSettings, StreamGraph
from penstock.engine.rpc.messages import Register, ToTask
from penstock.engine.rpc.server import ControlServer
from penstock.engine.plan.static_splits import assign_statically
from penstock.engine.runtime.task.environment import Environment
from penstock.engine.runtime.task.events import AssignSplits, Cancel, Close, Finished, NoMoreSplits
from penstock.engine.runtime.task.events import Opaque
from penstock.engine.runtime.task.slot import Slot
from penstock.hosts.spark.payload import pack, unpack
from penstock.hosts.spark.rows import to_batch
from penstock.hosts.spark.worker.pipelined_stage import WorkerHost

FOLDER = Path(sys.argv[1])
FAIL_ON = None


class Noted(KeyedProcessFunction):
    def process_element(self, value, ctx):
        if value == FAIL_ON:
            raise ValueError(f"refuse {value}")
        yield value

    def close(self):
        (FOLDER / "closed").touch()


def note(number, rows):
    with (FOLDER / "rows").open("ab") as file:
        file.write(cloudpickle.dumps((number, list(rows))))


class Transport:
    '''Gives these rows, one a read, then the end; notes what is written.'''
    ended = False

    def __init__(self, rows, reads=0):
        self.rows = rows
        self.written = 0

    def read(self, timeout_ns):
        if self.rows:
            return to_batch([self.rows.pop(0)])
        if timeout_ns is not None:
            # As a transport over which nothing comes: timers, flushes and pushes become due.
            time.sleep(timeout_ns / 1e9)
        else:
            self.ended = True
        return None

    def write(self, rows):
        self.written += 1
        note(self.written, rows)
        yield to_batch(rows)

    def ring(self):
        pass


def kind_of(identity, message):
    note("message", [type(message.report).__name__])


def run(
    transport_of=Transport,
    go=lambda host: [None for _ in host.run()],
    heartbeat_ms=60_000,
    received=kind_of,
    change=lambda graph, levels: None,
    orders=(),
):
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    source = NumberSequenceSource(0, 99)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda v: v % 7).process(Noted()).rebalance().map(str).print()
    graph = JobGraph("job", StreamGraph(env._sinks, GraphSettings(parallelism=1)), STREAMING)
    server = ControlServer("127.0.0.1")
    def arrived(identity, message):
        received(identity, message)
        if isinstance(message.report, Register):
            for attempt, event in orders:
                server.send(identity, ToTask(attempt, 0, event))
        if isinstance(message.report, Finished):
            (FOLDER / "finished").touch()

    server.start(arrived, lambda: None)
    levels = graph.levels("job-1")
    change(graph, levels)
    payloads = pack(levels, server.address, heartbeat_ms, checkpoints=str(FOLDER))
    level = unpack(payloads[0])
    slot = Slot(level, 0, Environment(lambda: 0, time.monotonic_ns))
    slot.open()
    (vertex,) = slot.tasks
    slot.handle(vertex, AssignSplits(Opaque(assign_statically(source, 1, 0)[0])))
    slot.handle(vertex, NoMoreSplits())
    while slot.step():
        pass
    go(WorkerHost(payloads[1], 0, transport_of(slot.outbox.take())))
    raise AssertionError("the process outlives its query")
"""


def run(folder: Path, text: str) -> list[tuple[Any, list[Any]]]:
    """Run a program after the one above, and return its notes. It must exit with 0, like a worker at a query's end."""
    script = folder / "host.py"
    script.write_text(PROGRAM + textwrap.dedent(text))
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    result = subprocess.run(
        [sys.executable, str(script), str(folder)], capture_output=True, text=True, env=environ, timeout=90
    )
    assert (result.returncode, result.stderr) == (0, "")
    noted = []
    path = folder / "rows"
    if path.exists():
        with path.open("rb") as file:
            while file.peek():
                noted.append(pickle.load(file))
    return noted


def buffers(noted: list[tuple[Any, list[Any]]]) -> list[bytes]:
    return [buffer for number, rows in noted if number != "message" for _, buffer in rows]


def values(noted: list[tuple[Any, list[Any]]]) -> list[Any]:
    from penstock.engine.runtime.chunks import Rows
    from penstock.engine.runtime.network.buffer import decode_items

    items = [item for buffer in buffers(noted) if buffer for item in decode_items(buffer)]
    return [value for item in items if isinstance(item, Rows) for value in item.values]


def test_records_go_through_and_the_last_one_is_pushed(tmp_path) -> None:
    """Records would be lost between two stages, or the last of a burst would stay in the JVM."""
    noted = run(tmp_path, "run()")
    assert sorted(values(noted)) == [*range(100)]
    assert buffers(noted)[-1] == b"", "an empty row follows the last buffer"
    assert (tmp_path / "closed").exists(), "a query that ends closes the functions"


@pytest.mark.thorough
@pytest.mark.parametrize("leaves", ["raise BrokenPipeError", "raise GeneratorExit"])
def test_a_closed_reader_ends_the_process(tmp_path, leaves) -> None:
    """A worker of a stopped query would continue, or print a traceback for each job that is canceled."""
    program = f"""
    class Gone(Transport):
        def write(self, rows):
            {leaves}
            yield

    run(Gone)
    """
    assert values(run(tmp_path, program)) == []
    assert (tmp_path / "closed").exists()


@pytest.mark.thorough
def test_a_stage_that_pyspark_closes_ends_the_process(tmp_path) -> None:
    """With PySpark's iterators a broken pipe shows as the end of the generator: the worker would stay."""
    program = """
    def go(host):
        stage = host.run()
        next(stage)
        stage.close()

    run(go=go)
    """
    run(tmp_path, program)
    assert (tmp_path / "closed").exists()


@pytest.mark.thorough
def test_a_failed_slot_continues_to_read(tmp_path) -> None:
    """The stage before it would be blocked writing, and the job could not restart."""
    program = """
    import threading
    from penstock.engine.rpc.messages import SlotFailed

    FAIL_ON = 50
    told = threading.Event()

    class Counting(Transport):
        def read(self, timeout_ns):
            batch = super().read(timeout_ns)
            if batch is None and self.ended:
                note("left", [len(self.rows)])
                # The process ends with the query, and the driver is a thread of it here.
                told.wait()
            return batch

    def received(identity, message):
        kind_of(identity, message)
        if isinstance(message.report, SlotFailed):
            told.set()

    run(Counting, received=received)
    """
    noted = run(tmp_path, program)
    assert ("left", [0]) in noted
    assert ("message", ["SlotFailed"]) in noted
    assert (tmp_path / "closed").exists()


@pytest.mark.thorough
def test_processes_that_functions_have_left_end_with_the_worker(tmp_path: Path) -> None:
    """A pool that is not shut down would stay forever, one more with each job and each restart."""
    program = """
    import multiprocessing, os, signal

    def waits(ignores):
        if ignores:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        ready.release()
        time.sleep(600)

    fork = multiprocessing.get_context("fork")
    ready = fork.Semaphore(0)

    def go(host):
        for ignores in (False, True):
            child = fork.Process(target=waits, args=(ignores,))
            child.start()
            ready.acquire()
            note("child", [child.pid])
        for _ in host.run():
            pass

    run(go=go)
    """
    children = [pid for what, pids in run(tmp_path, program) if what == "child" for pid in pids]
    assert len(children) == 2
    assert not [pid for pid in children if is_running(pid)]


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended. One whose parent has ended may wait to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.thorough
def test_a_slot_reports_the_progress_of_its_restore(tmp_path) -> None:
    """A restore that takes longer than the heartbeat's timeout would be taken for a lost worker, again and again."""
    noted = run(
        tmp_path,
        """
        from penstock.engine.checkpoint.storage import DirectoryStorage
        from penstock.engine.runtime.ids import SubtaskId
        from penstock.engine.state.handles import Redistribution, RestoredOperator
        from penstock.engine.state.operator_state import NamedList
        from penstock.engine.state.snapshot.files import write_lists

        REPORTS = []

        def until_reported(most):
            # A slow store: it continues when this much has been reported as read.
            deadline = time.monotonic() + 60
            while len([r for r in REPORTS if r.initializing and r.restored_bytes >= most]) < 5:
                assert time.monotonic() < deadline, REPORTS
                time.sleep(0.005)
            return most

        class Slow:
            def __init__(self, most):
                self.most = most

            def __reduce__(self):
                return until_reported, (self.most,)

        def received(identity, message):
            kind = type(message.report).__name__
            if kind == "Heartbeat":
                REPORTS.extend(message.report.reports)
                note("message", [kind, *message.report.reports])
            else:
                note("message", [kind])

        def restored(graph, levels):
            writing = write_lists(DirectoryStorage(str(FOLDER)), "1-x", [
                NamedList("positions", Redistribution.SPLIT, ["x" * 1_000, Slow(1_000), "x" * 1_000, Slow(2_000)])
            ])
            try:
                while True:
                    next(writing)
            except StopIteration as end:
                file = end.value
            vertex = levels[1].vertices[0]
            operator = RestoredOperator(lists=[(file.path, file.lists[0])])
            levels[1].restore[SubtaskId(vertex.id, 0)] = {vertex.nodes[0].state_id: operator}

        run(heartbeat_ms=20, received=received, change=restored)
        """,
    )
    kinds = [rows[0] for number, rows in noted if number == "message"]
    before = kinds[: kinds.index("Register")]
    assert set(before) == {"Heartbeat"} and len(before) >= 10, "the slot sends heartbeats before its tasks are open"
    reports = [rows[1] for number, rows in noted if number == "message" and len(rows) > 1]
    assert all(report.initializing for report in reports[: len(before)])
    assert max(report.bytes_to_restore for report in reports) > 2_000
    read = [report.restored_bytes for report in reports]
    assert read == sorted(read) and {report.files_to_restore for report in reports[5:]} == {1}


@pytest.mark.thorough
@pytest.mark.parametrize("event", ["Close", "Cancel"])
def test_the_job_master_ends_a_slot_of_its_own_attempt_only(tmp_path, event) -> None:
    """An order for the attempt before would end the new one, or a slot would not end when the job does."""
    program = f"""
    class Lasting(Transport):
        def read(self, timeout_ns):
            if self.rows or (FOLDER / "finished").exists():
                return super().read(timeout_ns)
            time.sleep(0.01)

    # The last counters come once for each order that is followed.
    run(Lasting, orders=[(1, Close()), (1, Cancel()), (0, {event}())])
    """
    reports = [report for number, (report, *_) in run(tmp_path, program) if number == "message"]
    after = reports[reports.index("Register") :]
    assert [report for report in after if report in ("Heartbeat", "Finished", "SlotFailed")] == [
        "Heartbeat",
        "Finished",
    ]
    assert (tmp_path / "closed").exists()
