"""A driver that is killed: run again with `-s latest`, the job goes on from its latest checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.own_jvm]

NUMBERS = 20_000
SLOWLY, FAST = "1500", "6000"
"""Records a second: of a run that is to be killed in the middle, of one that is to get to the end."""
JOB = """
    import sys

    from penstock.common import Encoder, Types, WatermarkStrategy
    from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
    from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
    from penstock.connectors.base.data_generator import DataGeneratorSource
    from penstock.connectors.base.rate_limiter import RateLimiterStrategy
    from penstock.datastream.state import ValueStateDescriptor


    class Count(KeyedProcessFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

        def process_element(self, value, ctx):
            count = (self.count.value() or 0) + 1
            self.count.update(count)
            yield f"{ctx.get_current_key()},{count},{value}"


    env = StreamExecutionEnvironment.get_execution_environment()
    source = DataGeneratorSource(lambda i: i, NUMBERS, RateLimiterStrategy.per_second(float(sys.argv[1])))
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    counted = numbers.key_by(lambda v: v % 50).process(Count()).uid("count")
    files = FileSink.for_row_format("OUT", Encoder.simple_string_encoder())
    # Some files go on over checkpoints.
    files = files.with_rolling_policy(RollingPolicy.default_rolling_policy(rollover_interval=1_000))
    counted.sink_to(files.build()).uid("files")
    env.execute("counts")
"""


def lines(out: Path) -> list[str]:
    """What a reader of committed files sees."""
    files = [path for path in out.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return [line for path in files for line in path.read_text().splitlines()]


@pytest.mark.soak
def test_a_driver_killed_and_run_again(tmp_path: Path) -> None:
    """The night's work would be lost with the machine on which it was started, or be in the output twice."""
    out, job = tmp_path / "out", tmp_path / "job.py"
    job.write_text(textwrap.dedent(JOB).replace("NUMBERS", str(NUMBERS)).replace("OUT", str(out)))
    # RocksDB, since it has most to lose: files of its own, and keys that go to another subtask.
    settings = {
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.cached-entries": "5",
        "execution.checkpointing.interval": "200ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
    }
    defaults = [argument for key, value in settings.items() for argument in ("-D", f"{key}={value}")]
    run = [sys.executable, "-m", "penstock.service.cli.main", "run", *defaults]
    with (tmp_path / "log").open("w") as log:
        first = subprocess.Popen([*run, "-p", "2", str(job), SLOWLY], stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 120
        while len(lines(out)) < NUMBERS // 20:
            assert first.poll() is None and time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.1)
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    written = len(lines(out))
    assert written < NUMBERS, "it was killed in the middle"

    on_heap = [*run, "-D", "state.backend.type=hashmap", "-s", "latest", str(job), SLOWLY]
    refused = subprocess.run(on_heap, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "is in RocksDB's own files: set state.backend.type: rocksdb" in refused.stderr, refused.stderr

    last = [*run, "-s", "latest", "-p", "3", str(job), FAST]
    again = subprocess.run(last, capture_output=True, text=True, check=False)

    assert again.returncode == 0, again.stdout + again.stderr
    rows = [tuple(map(int, line.split(","))) for line in lines(out)]
    assert sorted(value for _, _, value in rows) == [*range(NUMBERS)], "each number once"
    assert Counter(key for key, _, _ in rows) == dict.fromkeys(range(50), NUMBERS // 50)
    for key in range(50):
        assert sorted(count for k, count, _ in rows if k == key) == [*range(1, NUMBERS // 50 + 1)], "state went on"

    once_more = subprocess.run(last, capture_output=True, text=True, check=False)
    assert once_more.returncode == 1
    assert "there is no checkpoint of a job named 'counts'" in once_more.stderr, "its work is done, and not done twice"
    assert len(lines(out)) == NUMBERS
