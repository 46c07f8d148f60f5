"""One exchange of columns with a payload of random bytes: MB/s and CPU per MB, then latency at a rate.

`python -m benchmarks.exchange --record-bytes 100 --rate 20000`. The random bytes cannot be encoded in fewer, so all of
them pass through Spark.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy
import pyarrow

from benchmarks.chunk_source import ChunkSource
from benchmarks.measurement import measure, options, tell
from penstock.common import WatermarkStrategy
from penstock.datastream import DataStream, StreamExecutionEnvironment

_ROWS_MADE = 1 << 15


def schema(record_bytes: int) -> pyarrow.Schema:
    """Return the columns: a stamp of eight bytes, and a payload of the others."""
    return pyarrow.schema({"stamp": pyarrow.int64(), "payload": pyarrow.binary(record_bytes - 8)})


class Payloads:
    """Make batches of so many bytes a record, whose stamps are the time. The payload is the same in each."""

    def __init__(self, record_bytes: int) -> None:
        self._schema = schema(record_bytes)
        self._made: pyarrow.Array | None = None

    def __call__(self, numbers: range) -> pyarrow.RecordBatch:
        if self._made is None:
            kind = self._schema.field("payload").type
            made = numpy.random.default_rng(1).bytes(kind.byte_width * _ROWS_MADE)
            self._made = pyarrow.FixedSizeBinaryArray.from_buffers(kind, _ROWS_MADE, [None, pyarrow.py_buffer(made)])
        stamps = pyarrow.array(numpy.full(len(numbers), time.time_ns()))
        return pyarrow.RecordBatch.from_arrays([stamps, self._made[: len(numbers)]], schema=self._schema)

    def rows(self, numbers: range) -> list[Any]:
        """Return the same as dicts."""
        rows: list[Any] = self(numbers).to_pylist()
        return rows


def exchanged(env: StreamExecutionEnvironment, record_bytes: int, rate: float) -> DataStream[Any]:
    """Return columns of payloads behind an exchange, which divides them without a copy. `rate` 0: no limit."""
    payloads = Payloads(record_bytes)
    source = ChunkSource(payloads.rows, rate, make_batch=payloads)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "payloads")
    return stream.as_columns(schema(record_bytes)).rebalance()


def figures(arguments: argparse.Namespace) -> dict[str, float]:
    """Return throughput and CPU without a limit, the JVM's memory, then latency at the rate."""
    size = arguments.record_bytes
    fast = measure(arguments, lambda env: exchanged(env, size, 0), takes_batches=True)
    records = max(1, fast.arrivals.counts.total())
    cpu = fast.cpu_ns(records * size / 1e3)
    taken = {
        "mb_per_s": fast.arrivals.records_per_s * size / 1e6,
        "jvm_ms_per_mb": cpu["jvm_ns_per_record"] / 1e3,
        "python_ms_per_mb": cpu["python_ns_per_record"] / 1e3,
        "jvm_mb": fast.used_after.jvm_bytes / 1e6,
    }
    if arguments.rate:
        steady = measure(arguments, lambda env: exchanged(env, size, arguments.rate), stamp=0, takes_batches=True)
        taken |= steady.latency()
    return taken


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--record-bytes", type=int, default=100)
    parser.add_argument("--rate", type=float, default=20_000, help="records/s of the latency's measurement; 0: none")
    tell(figures(parser.parse_args()))


if __name__ == "__main__":
    main()
