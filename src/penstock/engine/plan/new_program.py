"""A new version of a running job's program, as it travels to the job: its plan with its code.

Values of the job are of the classes of its script. A class that is the same in the new script is one class: functions
of the new program are given the job's, so that `isinstance` and pickled records go on. A class that is new is added.
One that has changed is refused, unless it is a function's own: values of it may be in state and on their way.
"""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Mapping
from typing import Any

import cloudpickle.cloudpickle
import msgspec

import penstock
from penstock.api.functions.function import Function
from penstock.common.errors import ConfigurationError, JobError, ProgramError
from penstock.common.values.decoding import from_msgpack
from penstock.engine.plan import program_pickler
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.pickling import dump_main_classes
from penstock.engine.plan.same_code import same_code

_FIELDS = ("__dataclass_fields__", "__struct_fields__", "__attrs_attrs__", "model_fields")
"""Attributes of classes of which records are made: of the standard library, msgspec, attrs and Pydantic."""


class NewProgram(msgspec.Struct, frozen=True):
    """Made where the new program ran, unpacked where its job runs: `version` and `python` have to be the same there."""

    version: str
    python: str
    graph: bytes
    main_classes: bytes


class Unpacked(msgspec.Struct, frozen=True):
    """A new program where its job runs."""

    graph: JobGraph
    classes: dict[str, type]
    """Those of its script that the job's script does not have."""


def pack_program(graph: JobGraph, python: str) -> bytes:
    """A program to be sent. Raises ProgramError if part of it can't be pickled."""
    try:
        pickled = program_pickler.dumps(graph)
    except Exception as error:
        raise ProgramError(
            f"'{graph.name}' can't be pickled and so can't be sent to the job: {type(error).__name__}: {error}. Usual "
            "cause: a function that refers to something open or bound to this process (a connection, lock, file). Open "
            "it in the function's open() instead"
        ) from error
    return msgspec.msgpack.encode(NewProgram(penstock.__version__, python, pickled, dump_main_classes()))


def unpack_program(data: bytes, python: str, script: Mapping[str, Any] | None = None) -> Unpacked:
    """A program that was sent by this job's user. `script`: the variables of the job's script.

    Raises ConfigurationError if it comes from another version of penstock or Python, ProgramError if it can't be
    loaded, JobError if a class has changed of which there may be values.
    """
    script = vars(sys.modules["__main__"]) if script is None else script
    program = from_msgpack(data, NewProgram)
    if (program.version, program.python) != (penstock.__version__, python):
        raise ConfigurationError(
            f"the new program comes from penstock {program.version} on Python {program.python}, the job runs with "
            f"penstock {penstock.__version__} on Python {python}: use the same version"
        )
    classes, *_ = _loaded(program.main_classes)
    numbers = cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS
    known: dict[type, str] = {}
    for name, kind in classes.items():
        before = script.get(name)
        if not isinstance(before, type) or before.__module__ != "__main__":
            continue
        if same_code(before, kind):
            if before in numbers:
                known[before] = numbers[before]
            _take_for(kind, before)
        elif not issubclass(kind, Function) and not _is_called_only(kind):
            raise JobError(
                f"the class '{name}' of the script has changed, and values of it may be in state and on their way. "
                "Leave it as it is, or give the new one another name; or start anew: penstock stop JOB, penstock run -s"
            )
    added = {name: kind for name, kind in classes.items() if name not in script}
    graph = _loaded(program.graph)
    # It has noted the numbers of the sender. Workers know those of before.
    numbers.update(known)
    return Unpacked(graph, added)


def _is_called_only(kind: type) -> bool:
    """Whether it has methods of a function's and no fields: nobody makes records of it."""
    if issubclass(kind, tuple) or any(hasattr(kind, name) for name in _FIELDS):
        return False
    # Many a record has an `add`.
    methods = ("process_element", "map", "flat_map", "filter", "reduce", "process", "apply", "create_accumulator")
    return any(inspect.isfunction(vars(kind).get(name)) for name in methods)


def _take_for(new: type, known: type) -> None:
    """Pickles that were made with `new` are loaded with `known` in its place.

    cloudpickle gives each class of a script a number when it is pickled first, and loads a number it knows as the class
    that it knows.
    """
    number = cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS[new]
    cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID[number] = known


def _loaded(data: bytes) -> Any:
    try:
        return pickle.loads(data)
    except Exception as error:
        raise ProgramError(
            f"the new program can't be loaded by the job: {type(error).__name__}: {error}. Usual cause: a module that "
            "the job was not started with"
        ) from error
