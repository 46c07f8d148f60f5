"""Live queries of one key, 1,000 a second, beside a stream: its latency with them, and without. Item 32.

The same generator, a process of its own, is aimed first at a process beside the job that answers by the same protocol
and does nothing else, then at the job. What the latter adds to the latency of the stream is what it costs to be asked.
`beside_p99_ms` and `asked_p99_ms` are of the stream's records, `…_query_p99_ms` of the queries, from when one was due.
"""

from __future__ import annotations

import argparse
import multiprocessing
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.latency import through_exchanges
from benchmarks.measurement import measure, options, tell
from penstock.engine.rpc.keys import ControlAddress
from penstock.engine.rpc.messages import ReadAnswer, ReadCommand
from penstock.engine.rpc.server import ControlServer
from penstock.engine.rpc.state_connection import StateConnection
from penstock.engine.runtime.task.events import Opaque
from penstock.service.cluster.running_jobs import JobRegistry

_UID, _STATE, _KEYS = "count", "count", 1000
_BEGIN, _END = "begin", "end"
_POLL_S = 0.05


class Times:
    """Of the queries of a window, in seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._took: list[float] = []
        self._refused = 0

    def add(self, due: float, answer: ReadAnswer) -> None:
        """A query has been answered."""
        with self._lock:
            if answer.error:
                self._refused += 1
            else:
                self._took.append(time.monotonic() - due)

    def begin(self) -> None:
        """Forget those so far."""
        with self._lock:
            self._took, self._refused = [], 0

    def figures(self) -> dict[str, float]:
        """Those of the window."""
        with self._lock:
            took = sorted(self._took) or [0.0]
            p50, p99 = took[len(took) // 2], took[len(took) * 99 // 100]
            return {
                "queries": len(self._took),
                "refused": self._refused,
                "query_p50_ms": 1000 * p50,
                "query_p99_ms": 1000 * p99,
            }


def generate(orders: Connection, per_second: float) -> None:
    """Ask at a steady rate, whether or not there are answers, from when an address comes until the end."""
    address = orders.recv()
    connection, times = StateConnection(address, lambda: True), Times()
    number, began = 0, time.monotonic()
    while True:
        due = began + number / per_second
        time.sleep(max(0.0, due - time.monotonic()))
        asked = connection.query(ReadCommand(0, operator=_UID, state=_STATE, keys=[str(number * 7919 % _KEYS)]))
        asked.add_done_callback(lambda done, due=due: times.add(due, done.result()) if not done.exception() else None)  # type: ignore[misc]
        number += 1
        if orders.poll():
            if orders.recv() == _END:
                break
            times.begin()
            began_cpu, number, began = time.process_time(), 0, time.monotonic()
    figures = times.figures()
    figures["generator_cpu_percent"] = 100 * (time.process_time() - began_cpu) / (time.monotonic() - began)
    orders.send(figures)
    connection.close()


def echo(told: Connection) -> None:
    """Answer queries as a job does, with nothing behind it."""
    rows = [Opaque.pickled([(500, 123_456)])]
    server = ControlServer("127.0.0.1")

    def answer(identity: bytes, message: Any) -> None:
        columns = ["key", "value"]
        server.send(identity, ReadAnswer(message.number, "", "", _UID, _STATE, "value of Long", columns, rows))

    server.start(answer, lambda: None)
    told.send(server.address)
    told.recv()
    server.stop()


def of_job() -> ControlAddress:
    """The address of the job, once it runs."""
    while True:
        for job in JobRegistry().jobs():
            if job.name == "benchmark":
                return job.address
        time.sleep(_POLL_S)


def latency(arguments: argparse.Namespace, target: Callable[[], ControlAddress] | None) -> dict[str, float]:
    """Of the stream, while a generator asks `target`; None: without one."""
    context = multiprocessing.get_context("spawn")
    orders, end = context.Pipe()
    generator = context.Process(target=generate, args=(end, arguments.queries), daemon=True)
    if target is not None:
        generator.start()
        threading.Thread(target=lambda: orders.send(target()), daemon=True).start()
    found: dict[str, float] = {}

    def ended() -> None:
        if target is not None:
            orders.send(_END)
            found.update(orders.recv())

    begun = (lambda: orders.send(_BEGIN)) if target is not None else (lambda: None)
    stream = lambda env: through_exchanges(env, arguments.rate, 1).uid(_UID)  # noqa: E731
    measured = measure(arguments, stream, begun=begun, ended=ended, stamp=2).latency()
    if target is not None:
        generator.join(timeout=10)
    return measured | found


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--rate", type=float, default=20_000, help="records/s")
    parser.add_argument("--queries", type=float, default=1_000, help="queries/s")
    parser.add_argument("--rounds", type=int, default=1, help="how often each is measured, by turns")
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    orders, end = context.Pipe()
    beside = context.Process(target=echo, args=(end,), daemon=True)
    beside.start()
    address = orders.recv()
    told: dict[str, float] = {}
    p99s: dict[str, list[float]] = {"alone": [], "beside": [], "asked": []}
    targets = {"alone": None, "beside": lambda: address, "asked": of_job}
    for _ in range(arguments.rounds):
        for name, target in targets.items():
            figures = latency(arguments, target)
            p99s[name].append(figures["p99_ms"])
            told |= {f"{name}_{figure}": value for figure, value in figures.items()}
    told |= {f"{name}_p99_ms": sorted(values)[len(values) // 2] for name, values in p99s.items()}
    told["p99_ratio"] = told["asked_p99_ms"] / told["beside_p99_ms"]
    told["p99_grows_by_ms"] = told["asked_p99_ms"] - told["beside_p99_ms"]
    orders.send(_END)
    tell(told)


if __name__ == "__main__":
    main()
