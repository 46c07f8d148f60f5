"""The job master with many slots: its CPU during heartbeats, and the duration of start and end. Part of item 14.

The job master is the real one, hosted as on Spark's driver, with its real port. Another process simulates the slots,
each with its own connection and the messages of a slot; there is no Spark.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from multiprocessing.synchronize import Event
from types import SimpleNamespace
from typing import Any

import zmq

from benchmarks.latency import through_exchanges
from benchmarks.measurement import tell
from penstock.common.job_status import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.checkpoint.storage import DirectoryStorage
from penstock.engine.jobmaster.attempt import slots_of
from penstock.engine.jobmaster.job_master import JobMaster
from penstock.engine.jobmaster.restarts import NoRestart
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.rpc.keys import ControlAddress
from penstock.engine.rpc.messages import (
    FromSlot,
    Heartbeat,
    OperatorReport,
    Register,
    SlotReport,
    TaskReport,
    ToTask,
    decode_from_job_master,
    encode,
)
from penstock.engine.rpc.server import ControlServer
from penstock.engine.runtime.task.events import Close, DataEnded, Finished
from penstock.hosts.spark.driver.job_master_host import JobMasterHost
from penstock.service.client.plan_executor import PlanExecutor

_LEVELS = 4
_HEARTBEAT_S = 0.5
_TIMEOUT_S = 120

Slots = dict[tuple[int, int], list[tuple[int, int]]]


def job_graph(parallelism: int) -> JobGraph:
    """A job with three exchanges."""
    executor = PlanExecutor()
    env = StreamExecutionEnvironment(executor=executor)
    env.set_parallelism(parallelism)
    through_exchanges(env, 0, _LEVELS - 1).print()
    env.execute("many slots")
    return executor.graphs[0]


def play_slots(address: ControlAddress, slots: Slots, end: Event) -> None:
    """Simulate all slots of the job: register, send heartbeats until `end`, close."""
    context = zmq.Context()
    context.set(zmq.MAX_SOCKETS, len(slots) + 16)
    sockets = {slot: _connected(context, address) for slot in slots}
    for slot, socket in sockets.items():
        _say(socket, slot, Register())
    began = time.monotonic()
    beats = 0
    in_turn = list(sockets.items())
    while not end.is_set():
        due = int((time.monotonic() - began) / _HEARTBEAT_S * len(in_turn))
        for beat in range(beats, due):
            slot, socket = in_turn[beat % len(in_turn)]
            _say(socket, slot, Heartbeat([_report(*task) for task in slots[slot]]))
        beats = due
        time.sleep(0.002)
    for slot, socket in sockets.items():
        for task in slots[slot]:
            _say(socket, slot, DataEnded(*task))
    for slot, socket in sockets.items():
        while not _is_close(socket.recv()):
            pass
        for task in slots[slot]:
            _say(socket, slot, Finished(*task))
    context.destroy(linger=5000)


def _say(socket: zmq.Socket[bytes], slot: tuple[int, int], report: SlotReport) -> None:
    socket.send(encode(FromSlot(0, *slot, report)))


def _is_close(data: bytes) -> bool:
    message = decode_from_job_master(data)
    return isinstance(message, ToTask) and isinstance(message.event, Close)


def _connected(context: zmq.Context[Any], address: ControlAddress) -> zmq.Socket[bytes]:
    socket: zmq.Socket[bytes] = context.socket(zmq.DEALER)
    socket.curve_serverkey = address.server_public
    socket.curve_publickey = address.client_public
    socket.curve_secretkey = address.client_secret
    socket.connect(address.endpoint)
    return socket


def _report(vertex: int, subtask: int) -> TaskReport:
    operators = [OperatorReport(name, 1 << 30, 1 << 30, 0, 1 << 40, {}) for name in ("KeyedProcess", "Sink")]
    return TaskReport(vertex, subtask, 1 << 33, 1 << 33, 1 << 20, 1 << 20, 1 << 40, 1 << 40, 0, 0, 0, 0, operators)


def main() -> None:
    """Measure, by the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--subtasks", type=int, default=100, help="a multiple of 4")
    parser.add_argument("--seconds", type=int, default=10)
    arguments = parser.parse_args()
    graph = job_graph(arguments.subtasks // _LEVELS)
    master = JobMaster("measured", graph, JobSettings(), NoRestart(), now_ms=time.time_ns() // 1_000_000)
    server = ControlServer("127.0.0.1")
    query: Any = SimpleNamespace(is_active=True, failure=lambda: None, stop=lambda: None)
    host = JobMasterHost(
        master,
        server,
        sinks={},
        storage=DirectoryStorage(tempfile.mkdtemp()),
        start_queries=lambda effect: query,
        new_savepoint=lambda base: base or "",
        count_slots=lambda: 0,
    )
    spawn = multiprocessing.get_context("spawn")
    end = spawn.Event()
    slots = spawn.Process(target=play_slots, args=(server.address, slots_of(graph, 0), end))
    host.start()
    slots.start()
    # From the first that registers to the last.
    _wait(lambda: len(master.regions[0].attempt.slots_without_report) < arguments.subtasks)
    began = time.perf_counter()
    _wait(lambda: host.status is JobStatus.RUNNING)
    registered_s = time.perf_counter() - began
    time.sleep(1)
    began, began_cpu = time.perf_counter(), time.process_time()
    time.sleep(arguments.seconds)
    cores = (time.process_time() - began_cpu) / (time.perf_counter() - began)
    end.set()
    began = time.perf_counter()
    assert host.ended.wait(_TIMEOUT_S), "the job has not ended"
    closed_s = time.perf_counter() - began
    slots.join()
    assert host.status is JobStatus.FINISHED, host.error
    tell({"job_master_cores": cores, "register_s": registered_s, "close_s": closed_s})


def _wait(condition: Any) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the slots have not registered")
        time.sleep(0.005)


if __name__ == "__main__":
    main()
