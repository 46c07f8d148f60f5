"""Functions and classes of a job's script as values: sent, stored, and called in processes of their own."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import pytest

SCRIPT = """
import dataclasses
import functools
import pickle
import sys

from penstock.engine.plan import program_pickler
from penstock.engine.plan.pickling import dump_main_classes


def above(limit, value):
    return value > limit


@functools.lru_cache
def cached(value):
    return value > 10


def logged(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args)
    return call


@logged
def decorated(value):
    return value > 10


@dataclasses.dataclass(frozen=True)
class Rule:
    limit: int = 10
    uses = 0

    def holds(self, value):
        return value > self.limit

    @staticmethod
    def always(value):
        return value > 10

    class Inner:
        def __call__(self, value):
            return value > 10


def made(kind, value):
    return kind().holds(value)


def outer():
    def nested(value):
        return value > 10
    return nested


def replaced(value):
    return value > 10


first = replaced


def replaced(value):
    return value > 20


TABLE = list(range(1_000_000))


def large(value):
    return value > TABLE[10]


def serve(value):
    return value > 10


RULES = []
for limit in (10, 20):
    def rule(value, limit=limit):
        return value > limit
    RULES.append(rule)


def shifted(by):
    def decorate(function):
        @functools.wraps(function)
        def call(value):
            return function(value + by)
        return call
    return decorate


def plain(value):
    return value > 11


@shifted(2)
def above_twelve(value):
    return value > 12


VALUES = {
    "function": functools.partial(above, 10),
    "cached function": cached,
    "decorated function": decorated,
    "function with values of its decorator": above_twelve,
    "bound method": Rule().holds,
    "static method": Rule.always,
    "class in a partial": functools.partial(made, Rule),
    "object of a nested class": Rule.Inner(),
    "function of a module": (10).__lt__,
}
REFUSED = {
    "nested": outer(), "lambda": lambda value: value > 10, "replaced": first, "large": large, "serve": serve,
    "defined in a loop": RULES[0], "decorated later": shifted(1)(plain),
}
if __name__ == "__main__":
    import dead_end  # The driver has it, workers do not.

    def for_the_driver_only():
        return dead_end

    program = program_pickler.dumps((VALUES, REFUSED))
    sys.stdout.buffer.write(pickle.dumps((dump_main_classes(), program)))
"""

WORKER = """
import concurrent.futures, json, multiprocessing, pickle, sys
from penstock.common.functions.script_functions import dumps
from penstock.engine.plan.pickling import load_main_classes
from penstock.engine.state import pickles

def serve():
    # A function of a worker's own, with the name of one of the script's.
    pass

classes, program = pickle.loads(sys.stdin.buffer.read())
load_main_classes(classes)
values, refused = pickle.loads(program)
found = {}
for what, dump in (("sent", dumps), ("stored", pickles.dumps)):
    for name, value in values.items():
        (arrived, again), other = pickle.loads(dump(([value, value], 1)))
        # What has arrived is sent again, as behind a second exchange.
        (arrived,) = pickle.loads(dump([arrived]))
        found[f"{what}: {name}"] = [arrived(7), arrived(11), again(11)]
    for name, value in refused.items():
        try:
            found[f"{what}: {name}"] = repr(pickle.loads(dump([value])))
        except Exception as error:
            found[f"{what}: {name}"] = f"{type(error).__name__}: {error}"

import __main__
__main__.Rule.uses = 5
calls = {**values, **{name: refused[name] for name in refused if name not in ("replaced", "large")}}
for method in "fork", "spawn":
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
        for name, value in calls.items():
            found[f"{method}: {name}"] = [pool.submit(value, number).result(60) for number in (7, 11)]
        rule = pool.submit(__main__.Rule, 3).result(60)
        found[f"{method}: class"] = [type(rule) is __main__.Rule, rule.holds(4), __main__.Rule.uses]
        found[f"{method}: argument"] = [pool.submit(getattr, rule, "limit").result(60)]
        back = pool.submit(dict, check=values["function"]).result(60)["check"]
        found[f"{method}: result"] = [back(7), back(11)]
load_main_classes(pickle.dumps(({}, {}, {}, {})))
found["the job after it"] = [hasattr(__main__, "above")]
print(json.dumps(found))
"""
VALUES = (
    "function",
    "cached function",
    "decorated function",
    "function with values of its decorator",
    "bound method",
    "static method",
    "class in a partial",
    "object of a nested class",
    "function of a module",
)
IN_A_LOOP = "defined in a loop", "decorated later"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object] | str]:
    """What a worker did with the values of a script that ran in another process."""
    folder = tmp_path_factory.mktemp("script")
    (folder / "job.py").write_text(SCRIPT)
    (folder / "dead_end.py").write_text("")
    sent = subprocess.run([sys.executable, "job.py"], capture_output=True, check=False, cwd=folder)
    assert sent.returncode == 0, sent.stderr.decode()
    assert len(pickle.loads(sent.stdout)[0]) < 100_000, "what the script defines, without the table that it refers to"
    done = subprocess.run([sys.executable, "-c", WORKER], input=sent.stdout, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    answers: dict[str, list[object] | str] = json.loads(done.stdout)
    return answers


@pytest.mark.parametrize("way", ["sent", "stored"])
@pytest.mark.parametrize("value", VALUES)
def test_values_that_refer_to_the_script_arrive(found: dict[str, list[object] | str], value: str, way: str) -> None:
    """Rules that are broadcast, or kept in state, would end the job with a bare pickling error."""
    assert found[f"{way}: {value}"] == [False, True, True]


@pytest.mark.parametrize("way", ["sent", "stored"])
@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        ("nested", "PicklingError: another process can't find outer.<locals>.nested by its name: define the "),
        ("lambda", "PicklingError: another process can't find <lambda> by its name: define the function with "),
        ("replaced", "PicklingError: workers have no function 'replaced' of the script with this code"),
        ("large", "PicklingError: workers have no function 'large' of the script with this code"),
        ("serve", "PicklingError: workers have no function 'serve' of the script with this code"),
        ("defined in a loop", "PicklingError: workers have no function 'rule' of the script with this code and these"),
        ("decorated later", "PicklingError: workers have no function 'plain' of the script with this code and these"),
    ],
)
def test_functions_that_no_name_finds_are_refused_with_a_remedy(
    found: dict[str, list[object] | str], value: str, remedy: str, way: str
) -> None:
    """pickle's own message speaks of an attribute lookup, and another function of that name could be called."""
    assert str(found[f"{way}: {value}"]).startswith(remedy)


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("value", [*VALUES, "nested", "lambda", "serve", *IN_A_LOOP])
def test_pools_of_processes_call_them(found: dict[str, list[object] | str], value: str, method: str) -> None:
    """A function that spreads its work over processes could only call functions of modules."""
    assert found[f"{method}: {value}"] == [False, True]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_values_come_back_from_pools(found: dict[str, list[object] | str], method: str) -> None:
    """A result would be of another class than the worker's, or what was set in the worker's class would be lost."""
    assert found[f"{method}: class"] == [True, True, 5]
    assert found[f"{method}: argument"] == [3]
    assert found[f"{method}: result"] == [False, True]


def test_functions_of_a_script_are_gone_with_their_job(found: dict[str, list[object] | str]) -> None:
    """A job in the same worker would call the functions of the one before."""
    assert found["the job after it"] == [False]
