"""Spark's JVM is killed, as by the kernel when memory runs out: a new one takes its place, if penstock may start it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from tests.spark.jobs import run_script

pytestmark = pytest.mark.spark

PROGRAM = """
import logging, os, signal, sys, time
from pyspark import SparkContext
from pyspark.sql import SparkSession
from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.common.errors import PenstockError
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors import NumberSequenceSource
from penstock.spark.driver.java import find_java
from penstock.spark.internals.settings import FIXED_AT_START

logging.basicConfig(level=logging.WARNING, stream=sys.stdout, format="%(message)s")

def slowly(value):
    if value % 100 == 0:
        time.sleep(0.05)
    return value

def environment(spark=None, mode=RuntimeExecutionMode.STREAMING):
    settings = {
        "execution.checkpointing.interval": "200 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "5",
        "restart-strategy.fixed-delay.delay": "100 ms",
    }
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration, spark=spark)
    return env.set_parallelism(2).set_runtime_mode(mode)

def started(env):
    numbers = env.from_source(NumberSequenceSource(1, 6_000), WatermarkStrategy.no_watermarks(), "numbers")
    sums = numbers.map(slowly, Types.LONG()).key_by(lambda v: 0).reduce(lambda a, b: a + b)
    sums.filter(lambda v: v == 6_000 * 6_001 // 2).map(lambda v: f"sum: {v}").print()
    return env.execute_async("sum")

def kill_jvm(client):
    until = time.monotonic() + 90
    while not client.get_checkpoints():
        assert time.monotonic() < until
        time.sleep(0.05)
    os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)

def outcome(client):
    before = time.monotonic()
    try:
        client.get_job_execution_result().result()
        return "it ended well"
    except PenstockError as error:
        return f"{type(error).__name__}: {error}, after {time.monotonic() - before:.0f} s"
"""


def said(folder: Path, program: str) -> str:
    done = run_script(folder, PROGRAM + program, command=(sys.executable,))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.soak
def test_a_job_goes_on_in_a_new_jvm(tmp_path: Path) -> None:
    """The job would restart twice a second against a session that is gone; and so would the next one of the program."""
    text = said(
        tmp_path,
        """
client = started(environment())
kill_jvm(client)
print("first:", outcome(client))
os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
print("second:", outcome(started(environment())))
""",
    )
    assert "first: it ended well" in text and "second: it ended well" in text, text
    assert len(re.findall("sum: 18003000", text)) == 2, text
    assert text.count("a new session is started") == 1, text


@pytest.mark.soak
def test_a_session_of_the_users_that_is_gone_fails_the_job_at_once(tmp_path: Path) -> None:
    """A job would restart without end, or in a session that lacks what its user has set up."""
    text = said(
        tmp_path,
        """
os.environ["JAVA_HOME"] = str(find_java(os.environ).path)
os.environ["PYSPARK_PYTHON"] = sys.executable
builder = SparkSession.builder.master("local[8]").config("spark.ui.enabled", "false")
for key, value in FIXED_AT_START.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
client = started(environment(spark))
kill_jvm(client)
print("running:", outcome(client))
try:
    started(environment(spark))
except PenstockError as error:
    print(f"next: {type(error).__name__}: {error}")
""",
    )
    gone = "SessionLostError: the SparkSession of this job has lost its JVM, which was killed or ran out of memory"
    (seconds,) = re.findall(f"running: {gone}.* Start one, .*-s latest, after (\\d+) s", text)
    assert int(seconds) < 60
    assert f"next: {gone}" in text
