"""More than one executor, each a JVM of its own, on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.spark.jobs import run_script

pytestmark = [pytest.mark.spark, pytest.mark.slow]


# Two workers of a standalone cluster are in tests/e2e/test_standalone_cluster.py.
@pytest.mark.soak
def test_two_executors(tmp_path: Path) -> None:
    """What works in one JVM may not between two: records cross the network, the control port must be reached."""
    done = run_script(
        tmp_path,
        """
        import os
        from collections import Counter
        from penstock.common import Configuration, WatermarkStrategy
        from penstock.connectors.base.number_sequence import NumberSequenceSource
        from penstock.datastream import MapFunction, RuntimeExecutionMode, StreamExecutionEnvironment


        class Where(MapFunction):
            def map(self, pair):
                # The executor's JVM is the parent of the daemon that is the parent of this process.
                daemon = os.getppid()
                executor = int(os.popen(f"ps -o ppid= -p {daemon}").read())
                return executor, pair


        for mode in (RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH):
            settings = Configuration()
            settings.set_string("spark.master", "local-cluster[2,4,1024]")
            env = StreamExecutionEnvironment.get_execution_environment(settings)
            env.set_parallelism(2).set_runtime_mode(mode)
            numbers = env.from_source(NumberSequenceSource(0, 19_999), WatermarkStrategy.no_watermarks(), "numbers")
            counts = numbers.map(lambda v: (v % 100, 1)).key_by(lambda v: v[0])
            counts = counts.reduce(lambda a, b: (a[0], a[1] + b[1])).filter(lambda v: v[1] == 200).map(Where())
            with counts.execute_and_collect() as results:
                results = list(results)
            print(mode.name, "executors", len({executor for executor, _ in results}))
            print(mode.name, "right", Counter(pair for _, pair in results) == Counter((k, 200) for k in range(100)))
        """,
        command=(sys.executable,),
    )

    assert "STREAMING right True" in done.stdout, done.stdout + done.stderr
    assert "BATCH right True" in done.stdout, done.stdout + done.stderr
    assert "STREAMING executors 2" in done.stdout, "both executors had a part"
