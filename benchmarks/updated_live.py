"""An update of a running job: how long records wait while its functions are replaced.

Stamped source → key_by → count, with state of a given size → sink. Compares the ages of records in seconds in which a
checkpoint was taken, and in those in which functions were replaced at one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.arrivals import Arrivals, ArrivalsSink, count_so_far
from benchmarks.chunk_source import ChunkSource
from benchmarks.measurement import environment, options, tell, wait_until
from penstock.common import Types, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor
from penstock.engine.plan.new_program import pack_program
from penstock.engine.rpc.commands import send_command
from penstock.engine.rpc.messages import Command
from penstock.hosts.spark.payload import this_python
from penstock.service.client.plan_executor import PlanExecutor
from penstock.service.cluster.running_jobs import JobRegistry

NAME = "updated live"
Stamped = tuple[int, int]


class Keep(KeyedProcessFunction[int, Stamped, Stamped]):
    """Keeps a value of a given size for each key. Versions differ by their number only."""

    def __init__(self, version: int, value_bytes: int) -> None:
        self.version = version
        self.value_bytes = value_bytes

    def open(self, runtime_context: RuntimeContext) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Stamped, ctx: KeyedProcessFunction.Context) -> Iterator[Stamped]:
        self.value.update(bytes(self.value_bytes))
        yield value


class StampedKeys:
    """The keys in turn, with the time."""

    def __init__(self, keys: int) -> None:
        self.keys = keys

    def __call__(self, numbers: range) -> list[Stamped]:
        now_ns, keys = time.time_ns(), self.keys
        return [(number % keys, now_ns) for number in numbers]


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__, steady=False)
    parser.set_defaults(checkpoint_interval_ms=3_000)
    parser.add_argument("--state-mb", type=int, default=100)
    parser.add_argument("--value-bytes", type=int, default=1_000)
    parser.add_argument("--rate", type=float, default=20_000, help="records/s, once all keys are there")
    parser.add_argument("--updates", type=int, default=5)
    arguments = parser.parse_args()
    keys = arguments.state_mb * 1_000_000 // arguments.value_bytes

    def program(env: StreamExecutionEnvironment, out: Path, version: int) -> None:
        source = ChunkSource(StampedKeys(keys), arguments.rate, at_once=keys)
        stamped = env.from_source(source, WatermarkStrategy.no_watermarks(), "stamps").uid("stamps")
        kept = stamped.key_by(lambda record: record[0], key_type=Types.LONG())
        kept.process(Keep(version, arguments.value_bytes)).uid("kept").sink_to(ArrivalsSink(str(out), stamp=1))

    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        out = Path(name)
        env = environment(arguments)
        program(env, out, 0)
        client: Any = env.execute_async(NAME)
        wait_until(client, lambda: count_so_far(out) >= keys + 5 * arguments.rate, "records do not flow", 600)
        took_s: list[float] = []
        seconds: list[int] = []
        first = int(time.time())
        for version in range(1, arguments.updates + 1):
            time.sleep(arguments.checkpoint_interval_ms / 1000)
            asked_s = time.time()
            packed = _packed(program, out, arguments.parallelism, version)
            address = JobRegistry().find(NAME).address
            send_command(address, Command("update", program=packed), None, lambda: True)
            took_s.append(time.time() - asked_s)
            seconds += range(int(asked_s), int(time.time()) + 1)
        time.sleep(arguments.checkpoint_interval_ms / 1000)
        last = int(time.time())
        client.cancel().result()
        arrivals = Arrivals(out, first, last)
        replaced = [arrivals.age_ms(0.99, 1, begin=second, end=second + 1) for second in seconds]
        others = [
            arrivals.age_ms(0.99, 1, begin=second, end=second + 1)
            for second in range(first, last)
            if second not in seconds
        ]
    tell(
        {
            "updates": float(arguments.updates),
            "answered_s": max(took_s),
            "p99_ms": max(p99 for p99, _ in replaced),
            "max_ms": max(most for _, most in replaced),
            "p99_of_other_seconds_ms": max(p99 for p99, _ in others),
            "max_of_other_seconds_ms": max(most for _, most in others),
        }
    )


def _packed(program: Any, out: Path, parallelism: int, version: int) -> bytes:
    """The program with functions of another version, as `penstock update` sends it."""
    plans = PlanExecutor()
    env = StreamExecutionEnvironment(executor=plans)
    env.set_parallelism(parallelism)
    program(env, out, version)
    env.execute(NAME)
    return pack_program(plans.graphs[0], this_python())


if __name__ == "__main__":
    main()
