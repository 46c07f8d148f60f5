"""A new version of a program, where its job runs: its classes, and those of the job's script."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import penstock
from penstock.common.errors import JobError
from penstock.engine.plan import program_pickler
from penstock.engine.plan.new_program import NewProgram, unpack_program

PYTHON = "3"


def classes(source: str) -> dict[str, type]:
    """Those that a script defines."""
    exec(compile(source, "script.py", "exec"), script := {"__name__": "__main__"})
    return {name: one for name, one in script.items() if isinstance(one, type) and one.__module__ == "__main__"}


def sent(source: str) -> bytes:
    of_script = program_pickler.dumps((classes(source), {}, {}))
    program = NewProgram(penstock.__version__, PYTHON, program_pickler.dumps(None), of_script)
    return msgspec.msgpack.encode(program)


RECORDS = [
    "import dataclasses\n@dataclasses.dataclass\nclass It:\n one: int = {}\n def map(self, n): ...",
    "import typing\nclass It(typing.NamedTuple):\n one: int = {}\n def filter(self, n): ...",
    "import msgspec\nclass It(msgspec.Struct):\n one: int = {}\n def reduce(self, n): ...",
    "import pydantic\nclass It(pydantic.BaseModel):\n one: int = {}\n def apply(self, n): ...",
    "class It:\n def __init__(self): self.one = {}\n def add(self, n): self.one += n",
]
FUNCTIONS = [
    "from penstock.datastream.functions import MapFunction\nclass It(MapFunction):\n def map(self, v): return {}",
    "class It:\n def process_element(self, v, ctx): return {}",
    "class It:\n def create_accumulator(self): return {}\n def add(self, v, a): return a",
]


@pytest.mark.parametrize("record", RECORDS)
def test_a_class_of_records_that_has_changed_is_refused(record: str) -> None:
    """Values of the class before, in state and on their way, would meet functions that know another one."""
    script: dict[str, Any] = dict(classes(record.format(1)))
    with pytest.raises(JobError, match="the class 'It' of the script has changed"):
        unpack_program(sent(record.format(2)), PYTHON, script)
    assert unpack_program(sent(f"\n{record.format(1)}"), PYTHON, script).classes == {}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_class_of_functions_may_change(function: str) -> None:
    """No function that is written as a class could be updated."""
    script: dict[str, Any] = dict(classes(function.format(1)))
    assert unpack_program(sent(function.format(2)), PYTHON, script).classes == {}
