"""Serialization of programs: errors name what can't be sent, and classes of the script arrive."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.common import Row, Types, WatermarkStrategy
from penstock.common.errors import ProgramError
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.pickling import dump_level, load_level
from penstock.engine.plan.stream_graph import GraphSettings, StreamGraph
from penstock.engine.runtime.execution_mode import STREAMING

ROW = Types.ROW_NAMED(["n"], [Types.LONG()])


def numbers():
    env = StreamExecutionEnvironment()
    return env, env.from_source(NumberSequenceSource(1, 9), WatermarkStrategy.no_watermarks(), "numbers")


def levels(env) -> list:
    return JobGraph("job", StreamGraph(env._sinks, GraphSettings(parallelism=2)), STREAMING).levels("job-1")


def test_a_level_arrives_as_it_was() -> None:
    """Workers would run another program."""
    env, stream = numbers()
    factor = 3
    stream.map(lambda value: value * factor).name("m").key_by(lambda value: value).map(Row, ROW).name("n").print()
    sent = levels(env)
    for level in sent:
        arrived = load_level(dump_level(level))
        assert (arrived.job_id, arrived.level, arrived.widths, arrived.edges) == (
            "job-1",
            level.level,
            (2, 2),
            level.edges,
        )
        for before, after in zip(level.vertices, arrived.vertices, strict=True):
            assert [replace(node, operator=node.operator.name) for node in after.nodes] == [
                replace(node, operator=node.operator.name) for node in before.nodes
            ]
            assert all(a.operator is not b.operator for a, b in zip(before.nodes, after.nodes, strict=True))
    operator = load_level(dump_level(sent[0])).vertices[0].nodes[1].operator
    assert operator.function.call(5) == 15


@pytest.mark.parametrize("make", [threading.Lock, lambda: iter([1]) and (i for i in [1]), lambda: sys.stdout])
def test_a_function_that_holds_something_open_is_named(make) -> None:
    """The error would be "cannot pickle '_thread.lock' object", without naming the call."""
    held = make()
    _, stream = numbers()
    with pytest.raises(ProgramError) as caught:
        stream.map(str).map(lambda value: (value, held))
    text = str(caught.value)
    assert f"map at {__file__}, line {caught.traceback[0].lineno + 1}: the argument func can't be pickled" in text
    assert "Open it in the function's open() instead" in text
    assert "TypeError" in text


def test_a_function_that_lacks_a_name_and_holds_something_open_later_is_named_on_submission() -> None:
    """What is pickled late, since a helper is defined below, would fail with an error that names no operator."""
    held: list = []
    env, stream = numbers()
    stream.map(lambda value: helper(value, held)).name("guarded").print()
    held.append(threading.Lock())

    def helper(value, more):
        return value, more

    with pytest.raises(ProgramError, match=r"operator 'guarded': its function can't be pickled[\s\S]*_thread.lock"):
        for level in levels(env):
            dump_level(level)


def test_a_partitioner_that_holds_something_open_is_told() -> None:
    """The same for objects outside of operators."""
    lock = threading.Lock()
    _, stream = numbers()
    with pytest.raises(ProgramError, match=r"partition_custom at .*: the argument partitioner can't be .*_thread.lock"):
        stream.partition_custom(lambda key, count: lock and 0, lambda value: value)
    with pytest.raises(
        ProgramError, match=r"partition_custom at .*: the argument key_selector can't be .*_thread.lock"
    ):
        stream.partition_custom(lambda key, count: 0, lambda value: lock and value)


class Refuses:
    def __setstate__(self, state):
        raise ValueError("no state of mine")

    def __call__(self, value):
        return value


def test_what_can_not_be_unpickled_is_named() -> None:
    """A worker would end with an error that names neither operator nor class."""
    refusing = Refuses()
    refusing.state = 1
    env, stream = numbers()
    stream.map(str).name("fine").map(refusing).name("refusing").print()
    data = dump_level(levels(env)[0])
    with pytest.raises(ProgramError, match="can't unpickle operator 'refusing': ValueError: no state of mine"):
        load_level(data)


SCRIPT = """
import dataclasses, enum, pickle, sys
from penstock.engine.plan.pickling import dump_main_classes, load_main_classes

class Color(enum.Enum):
    RED = 1

@dataclasses.dataclass
class Flight:
    origin: str
    color: Color = Color.RED

class Unpicklable(type(sys.stdout)):
    pass

import threading
class Holds:
    lock = threading.Lock()

if len(sys.argv) > 1:
    records = pickle.dumps([Flight("JFK")]), pickle.dumps([Holds()])
    sys.stdout.buffer.write(pickle.dumps((dump_main_classes(), *records)))
"""

WORKER = """
import pickle, sys
from penstock.engine.plan.pickling import load_main_classes
classes, records, unreadable = pickle.loads(sys.stdin.buffer.read())
load_main_classes(classes)
(flight,) = pickle.loads(records)
import __main__
assert type(flight) is __main__.Flight, type(flight)
assert flight.color is __main__.Color.RED
assert pickle.loads(pickle.dumps(flight)) == flight
assert "Holds" not in vars(__main__) and not hasattr(__main__, "Unheard")
print(flight)
try:
    pickle.loads(unreadable)
except Exception as error:
    print(f"{type(error).__name__}: {error}")
# A job after this one, in the same worker.
load_main_classes(pickle.dumps(({}, {}, {}, {})))
assert not hasattr(__main__, "Holds")
"""


def test_classes_of_the_script_answer_to_main_in_workers(tmp_path: Path) -> None:
    """Records of a class of the job's own script could not be read by any worker."""
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)
    sent = subprocess.run([sys.executable, str(script), "dump"], check=True, capture_output=True).stdout
    done = subprocess.run([sys.executable, "-c", WORKER], input=sent, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    flight, why = done.stdout.decode().splitlines()
    assert flight == "Flight(origin='JFK', color=<Color.RED: 1>)"
    assert why.startswith(
        "ProgramError: the worker does not have class 'Holds' of the job's script, because the driver could not pickle "
        "it: TypeError: cannot pickle '_thread.lock' object"
    )
