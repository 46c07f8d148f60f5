"""What a row costs a worker in each transport, without Spark: one row in, one row out, CPU time and round trip.

Part of item 21. Another process stands for the JVM and sends the next row when it has the answer to the last, so a
worker wakes up for each row, as it does at low rates and small buffer timeouts. CPU time hardly depends on what else
the machine does.
"""

from __future__ import annotations

import argparse
import itertools
import os
import queue
import socket
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.serializers import ArrowStreamSerializer

from benchmarks.measurement import tell
from penstock.common.configuration.choices import SparkTransport
from penstock.hosts.spark.internals.settings import FIXED_AT_START
from penstock.hosts.spark.rows import buffers_of, to_batch
from penstock.hosts.spark.worker.transport import IteratorTransport, PipeTransport, Transport

_WARM_UP_ROWS = 200
_PYSPARK_QUEUE = 2


def wrapped(batch: pa.RecordBatch) -> pa.RecordBatch:
    """As PySpark wraps what a stage yields."""
    struct = pa.StructArray.from_arrays(batch.columns, fields=pa.struct(list(batch.schema)))
    return pa.RecordBatch.from_arrays([struct], ["_0"])


def read_by_pyspark(incoming: Any) -> Iterator[pa.RecordBatch]:
    """Batches by way of a reading thread and a queue, as in PySpark's workers when their UDFs are pipelined."""
    arrived: queue.Queue[pa.RecordBatch | None] = queue.Queue(_PYSPARK_QUEUE)

    def read() -> None:
        for batch in ArrowStreamSerializer().load_stream(incoming):
            arrived.put(batch)
        arrived.put(None)

    threading.Thread(target=read, daemon=True).start()
    while (batch := arrived.get()) is not None:
        yield batch


def jvm(end: socket.socket, rows: int, size: int) -> None:
    """The other process: sends a row to the worker when it has got the answer to the one before."""
    batch = wrapped(to_batch([(0, bytes(size))]))
    sink, source = end.makefile("wb"), end.makefile("rb")
    writer = pa.RecordBatchStreamWriter(sink, batch.schema)
    reader = None
    for _ in range(rows):
        writer.write_batch(batch)
        sink.flush()
        reader = reader or pa.ipc.open_stream(source)
        reader.read_next_batch()
    writer.close()
    sink.flush()


def echo(transport: Transport, rows: int, wall_ns: list[int], cpu_ns: list[int]) -> Iterator[pa.RecordBatch]:
    """Answer each row with itself, for so many rows; notes the time, and the CPU time of this process, at each."""
    for _ in range(rows):
        batch = transport.read(None)
        assert batch is not None
        wall_ns.append(time.perf_counter_ns())
        cpu_ns.append(time.process_time_ns())
        yield from transport.write([(0, buffer) for buffer in buffers_of(batch)])


def measure(kind: SparkTransport, rows: int, size: int) -> dict[str, float]:
    """CPU per row in this process (all threads), and the median time from one row to the next."""
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        jvm(theirs, _WARM_UP_ROWS + rows, size)
        os._exit(0)
    theirs.close()
    buffered = int(FIXED_AT_START["spark.buffer.size"])
    incoming, outgoing = (os.fdopen(os.dup(ours.fileno()), mode, buffered) for mode in ("rb", "wb"))
    pipes = kind is SparkTransport.PIPES
    transport: Transport
    transport = PipeTransport(incoming, outgoing) if pipes else IteratorTransport(read_by_pyspark(incoming))
    wall_ns: list[int] = []
    cpu_ns: list[int] = []
    stage = map(wrapped, echo(transport, _WARM_UP_ROWS + rows, wall_ns, cpu_ns))
    ArrowStreamSerializer(flush_per_batch=not pipes).dump_stream(stage, outgoing)
    os.wait()
    wall_ns, cpu_ns = wall_ns[_WARM_UP_ROWS:], cpu_ns[_WARM_UP_ROWS:]
    gaps = [after - before for before, after in itertools.pairwise(wall_ns)]
    return {"cpu_us": (cpu_ns[-1] - cpu_ns[0]) / len(gaps) / 1e3, "trip_us": statistics.median(gaps) / 1e3}


def main() -> None:
    """Measure, by the options: medians over some rounds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--bytes", type=int, default=300, help="of a row's buffer")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    taken: dict[str, list[float]] = defaultdict(list)
    for _ in range(arguments.rounds):
        figures = {kind: measure(kind, arguments.rows, arguments.bytes) for kind in SparkTransport}
        for name, of_pipes in figures[SparkTransport.PIPES].items():
            of_iterators = figures[SparkTransport.ITERATORS][name]
            taken[f"pipes_{name}"].append(of_pipes)
            taken[f"iterators_{name}"].append(of_iterators)
            taken[f"{name}_ratio"].append(of_iterators / of_pipes)
    tell({name: statistics.median(values) for name, values in taken.items()})


if __name__ == "__main__":
    main()
