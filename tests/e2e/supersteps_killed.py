"""The program of test_superstep_kills.py: an iteration whose processes are killed in each superstep, once.

Arguments: a folder, and what to kill in each superstep, in turn: worker, jvm, driver.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from penstock.datastream import ProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.iteration import IterationListener, SumAggregator, iterate

SUPERSTEPS = 6
NUMBERS = 12
PATIENCE_S = 60


class Step(ProcessFunction[Any, Any], IterationListener):
    """Adds one to each number. In each superstep but the first it kills, once."""

    def __init__(self, folder: str, kinds: list[str]) -> None:
        self.folder = folder
        self.kinds = kinds

    def open(self, runtime_context: Any) -> None:
        self.context = runtime_context
        self.begins = True

    def process_element(self, value: Any, ctx: Any) -> Any:
        if self.begins and self.context.get_index_of_this_subtask() == 0:
            with (Path(self.folder) / "begun").open("a") as file:
                file.write(f"{ctx.timestamp()}\n")
        self.begins = False
        self.context.get_iteration_aggregator("sum").aggregate(1)
        if ctx.timestamp():
            assert self.context.get_previous_iteration_aggregate("sum") == NUMBERS
        yield value[0], value[1] + 1

    def on_epoch_watermark_incremented(self, epoch_watermark: int, context: Any) -> None:
        killed = Path(self.folder) / f"killed-{epoch_watermark}"
        if epoch_watermark and self.context.get_index_of_this_subtask() == 0 and not killed.exists():
            killed.touch()
            os.kill(self._target(self.kinds[epoch_watermark % len(self.kinds)]), signal.SIGKILL)
            time.sleep(PATIENCE_S)
        # Long enough for checkpoints.
        time.sleep(0.5)

    def _target(self, kind: str) -> int:
        if kind == "driver":
            return int((Path(self.folder) / "driver").read_text())
        pid = os.getpid()
        while kind == "jvm" and "java" not in Path(f"/proc/{pid}/comm").read_text():
            pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        return pid


def main() -> None:
    """Run the iteration, and write its results."""
    folder, *kinds = sys.argv[1:]
    (Path(folder) / "driver").write_text(str(os.getpid()))
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    env.set_parallelism(2)
    numbers = env.from_collection([(number, 0) for number in range(NUMBERS)]).rebalance()
    iteration = iterate(numbers, SUPERSTEPS, aggregators={"sum": SumAggregator()})
    stepped = iteration.process(Step(folder, kinds)).key_by(lambda value: value[0]).map(lambda value: value)
    with iteration.close_with(stepped.rebalance()).execute_and_collect() as results:
        found = sorted(results)
    (Path(folder) / "results").write_text(repr(found))


if __name__ == "__main__":
    main()
