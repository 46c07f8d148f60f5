"""Send a new version of a running job's program to the job: its plan with its code.

Values of the job are instances of classes of its script. For a class that is the same in the new script, functions of
the new program get the job's class, so that `isinstance` and pickled records still work. A new class is added. A
changed class is refused unless it is a function's class: state and records in flight may hold instances of it.
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
"""Attributes of record classes: dataclasses, msgspec, attrs, Pydantic."""


class NewProgram(msgspec.Struct, frozen=True):
    """A packed program. `version` and `python` have to be the job's."""

    version: str
    python: str
    graph: bytes
    main_classes: bytes


class UnpackedProgram(msgspec.Struct, frozen=True):
    """A new program in the job's driver."""

    graph: JobGraph
    classes: dict[str, type]
    """Classes of its script that the job's script does not have."""


def pack_program(graph: JobGraph, python: str) -> bytes:
    """Pack a program to send it to its job. Raises ProgramError if part of it cannot be pickled."""
    try:
        pickled = program_pickler.dumps(graph)
    except Exception as error:
        raise ProgramError(
            f"'{graph.name}' can't be sent to the job because it can't be pickled: {type(error).__name__}: {error}. "
            "Usual cause: a function that refers to something open or bound to this process (a connection, lock, "
            "file). Open it in the function's open() instead"
        ) from error
    return msgspec.msgpack.encode(NewProgram(penstock.__version__, python, pickled, dump_main_classes()))


def unpack_program(data: bytes, python: str, script: Mapping[str, Any] | None = None) -> UnpackedProgram:
    """Unpack a program that this job's user has sent. `script`: the variables of the job's script.

    Raises ConfigurationError if it comes from another version of penstock or Python, ProgramError if it cannot be
    loaded, and JobError if a class has changed that may have instances.
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
            _load_as(kind, before)
        elif not issubclass(kind, Function) and not _is_called_only(kind):
            raise JobError(
                f"the class '{name}' of the script has changed, and state and records in flight may hold instances of "
                "it. Undo the change, or rename the new class; or stop the job and start it from the savepoint: "
                "penstock stop JOB, penstock run -s SAVEPOINT NEW"
            )
    added = {name: kind for name, kind in classes.items() if name not in script}
    graph = _loaded(program.graph)
    # Loading has recorded the sender's numbers of classes. Workers know the numbers from before.
    numbers.update(known)
    return UnpackedProgram(graph, added)


def _is_called_only(kind: type) -> bool:
    """Return whether the class has methods of a function and no fields, so that it is not a class of records."""
    if issubclass(kind, tuple) or any(hasattr(kind, name) for name in _FIELDS):
        return False
    # Without `add`, which records have, too.
    methods = ("process_element", "map", "flat_map", "filter", "reduce", "process", "apply", "create_accumulator")
    return any(inspect.isfunction(vars(kind).get(name)) for name in methods)


def _load_as(new: type, known: type) -> None:
    """Load pickles that refer to `new` with `known` in its place.

    cloudpickle numbers each class of a script when it is first pickled, and loads a known number as the known class.
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
