"""Whether two functions or classes are the same program, wherever their lines are."""

from __future__ import annotations

import functools
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.plan.same_code import same_code

SCRIPT = """
import dataclasses, enum, pickle, sys, typing
import attrs, msgspec, pydantic
from penstock.engine.plan import program_pickler
from penstock.engine.plan.pickling import dump_main_classes

@dataclasses.dataclass
class Dataclass:
    key: int
    tags: list = dataclasses.field(default_factory=list)
    def total(self): return self.key + {number}

@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Frozen:
    key: int = {number}

class Struct(msgspec.Struct, tag=True):
    a: int
    c: list[int] = []
    d: int = {number}

class Named(typing.NamedTuple):
    a: int
    b: int = {number}

class Typed(typing.TypedDict):
    a: int
    b{number}: int

class Color(enum.Enum):
    RED = {number}

@attrs.define
class Attrs:
    a: int
    b: int = {number}

class Model(pydantic.BaseModel):
    a: int
    b: int = {number}

class Plain:
    __slots__ = ("a",)
    def __init__(self): self.a = {{1, 2, {number}}}
    @property
    def b(self): return self.a
    @staticmethod
    def c(): return {number}

LIMIT = {number}

class Refers:
    def check(self, value): return (lambda one: one > LIMIT)(value)

sys.stdout.buffer.write(dump_main_classes())
"""
KINDS = ["Dataclass", "Frozen", "Struct", "Named", "Typed", "Color", "Attrs", "Model", "Plain", "Refers"]


@functools.cache
def classes(number: int, empty_lines: int) -> dict[str, type]:
    """The classes of a script as they arrive from the process that has run it."""
    script = "\n" * empty_lines + SCRIPT.format(number=number)
    sent = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert sent.returncode == 0, sent.stderr.decode()
    found, _, left_out, _ = pickle.loads(sent.stdout)
    assert not left_out
    kinds: dict[str, type] = found
    return kinds


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_is_the_same_where_only_lines_have_moved(kind: str) -> None:
    """A program could not be changed in one place without its records' classes being refused."""
    assert same_code(classes(1, 0)[kind], classes(1, 3)[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_with_another_number_in_it_is_another(kind: str) -> None:
    """Values of the class before would be taken for values of the new one."""
    assert not same_code(classes(1, 0)[kind], classes(2, 0)[kind])


def made(source: str, **variables: Any) -> Any:
    """What a script calls `it`."""
    exec(compile(source, "script.py", "exec"), namespace := {"__name__": "__main__", **variables})
    return namespace["it"]


SAME = [
    ("it = lambda v: v + 1", "\n# moved\n\nit = lambda v: v + 1"),
    ("def it(v): return v", "\n\ndef it(v):\n    return v"),
    ("import functools\nit = functools.partial(max, 3)", "import functools\n\nit = functools.partial(max, 3)"),
    ("it = [float('nan'), -0.0, {1: 'a'}]", "it = [float('nan'), -0.0, {1: 'a'}]"),
    ("def it(v): return it(v - 1)", "\ndef it(v): return it(v - 1)"),
    ("def it(v):\n a = v\n return a", "def it(v):\n b = v\n return b"),
    ("def it(v):\n a = v\n return lambda: a", "def it(v):\n b = v\n return lambda: b"),
    ("def it(v): return 1", "def it(v):\n 'says what'\n return (\n1)"),
    ("class it:\n def f(v):\n  'one'\n  return 1", "class it:\n def f(v):\n  'other'\n  return 1"),
]
OTHERS = [
    ("it = lambda v: v + 1", "it = lambda v: v + 2"),
    ("it = lambda v: v + 1", "it = lambda v: v + 1.0"),
    ("it = lambda v: v + 1", "it = lambda v: v - 1"),
    ("it = lambda v: v.a", "it = lambda v: v.b"),
    ("it = lambda v, n=1: v", "it = lambda v, n=2: v"),
    ("def outer(n): return lambda v: v + n\nit = outer(1)", "def outer(n): return lambda v: v + n\nit = outer(2)"),
    ("n = 1\nit = lambda v: (lambda: n)()", "n = 2\nit = lambda v: (lambda: n)()"),
    ("def help(v): return v\nit = lambda v: help(v)", "def help(v): return -v\nit = lambda v: help(v)"),
    ("import functools\nit = functools.partial(max, 3)", "import functools\nit = functools.partial(max, 4)"),
    ("it = 0.0", "it = -0.0"),
    ("it = 1", "it = True"),
    ("it = [1]", "it = (1,)"),
    ("def it(a, b): return a", "def it(b, a): return b"),
    ("def it(v):\n a, b = v\n return locals()", "def it(v):\n b, a = v\n return locals()"),
    ("def it(v): return 'one'", "def it(v): return 'other'"),
    ("it = lambda: 'one'", "it = lambda: 'other'"),
    (
        "def it(v):\n try:\n  f(v)\n  g(v)\n except ValueError:\n  h(v)",
        "def it(v):\n try:\n  f(v)\n except ValueError:\n  h(v)\n else:\n  g(v)",
    ),
    (
        "import functools\n@functools.lru_cache\ndef it(v): return 1",
        "import functools\n@functools.lru_cache\ndef it(v): return 2",
    ),
    (
        "import functools\n@functools.singledispatch\ndef it(v): return 1\n@it.register\ndef _(v: int): return 1",
        "import functools\n@functools.singledispatch\ndef it(v): return 1\n@it.register\ndef _(v: int): return 2",
    ),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_code_elsewhere(one: str, other: str) -> None:
    """Each function of a program would seem new, and be replaced, because a comment was written above it."""
    assert same_code(made(one), made(other))


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_other_code(one: str, other: str) -> None:
    """A new function would be taken for the old one, and never called."""
    assert not same_code(made(one), made(other))


def test_a_sink_with_transactions_is_the_same_in_each_run() -> None:
    """A job with such a sink could never be updated: each run of a program is told from the others by a number."""
    sink = """
from penstock.datastream.connectors.base import TwoPhaseCommitSink
class Sink(TwoPhaseCommitSink):
    begin_transaction = invoke = pre_commit = commit = abort = lambda *_: None
    def __init__(self, path): self.path = path
it = Sink({path!r})
"""
    assert same_code(made(sink.format(path="a")), made(sink.format(path="a")))
    assert not same_code(made(sink.format(path="a")), made(sink.format(path="b")))


def test_functions_of_modules_are_the_same_by_name() -> None:
    """They are sent by name: what their code is in another process nobody sees here."""
    assert same_code(pickle.dumps, pickle.dumps) and not same_code(pickle.dumps, pickle.loads)
    assert same_code(Path.exists, Path.exists) and not same_code(Path, str)


def test_what_may_be_different_is_left_out() -> None:
    """The function of an operator could not be told from its window or its key selector."""

    def pair(function: Callable[[int], int], size: int) -> dict[str, Any]:
        return {"function": function, "size": size}

    one, other = made("it = lambda v: v"), made("it = lambda v: -v")
    assert same_code(pair(one, 3), pair(other, 3), except_for=[(one, other)])
    assert not same_code(pair(one, 3), pair(other, 4), except_for=[(one, other)])


def of_process(source: str) -> Any:
    """What a script calls `it`, as it arrives from the process that has run it."""
    program = f"{source}\nimport sys\nfrom penstock.engine.plan import program_pickler\n"
    program += "sys.stdout.buffer.write(program_pickler.dumps(it))"
    sent = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert sent.returncode == 0, sent.stderr.decode()
    return pickle.loads(sent.stdout)


LIBRARIES = """
import dataclasses, functools, pydantic, re, typing

PATTERN = re.compile("a+")
Key = int | str

@dataclasses.dataclass
class Optional:
    one: int | None = None

class Checked(pydantic.BaseModel):
    one: int | None = None

    @pydantic.field_validator("one")
    @classmethod
    def checked(cls, one): return one

class Lazy:
    @functools.cached_property
    def value(self): return 1

    @functools.singledispatchmethod
    def of(self, value): return value

@functools.singledispatch
def text(value): return str(value)

@text.register
def _(value: int): return hex(value)

def it(value): return PATTERN, Key, Optional, Checked, Lazy, text(value)
"""


def test_what_pickle_does_not_take_as_it_is_is_compared_by_what_it_consists_of() -> None:
    """An update would be refused for a class with a field `int | None`, though nothing of it has changed."""
    assert same_code(of_process(LIBRARIES), of_process(f"\n{LIBRARIES}"))
