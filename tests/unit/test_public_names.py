"""Public names: each has one home, a door that users import from, and says so."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

import pytest

import penstock.cep
import penstock.common
import penstock.datastream
import penstock.iteration
import penstock.metrics
import penstock.state_processor
import penstock.table
import penstock.testing
from penstock.common.typeinfo import Types
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import StateTtlConfig, ValueStateDescriptor
from penstock.datastream.window import TimeWindow, Trigger, TumblingEventTimeWindows

# The packages from which users import. What one of their modules lists in `__all__` is public.
PUBLIC = (
    penstock.cep,
    penstock.iteration,
    penstock.common,
    penstock.datastream,
    penstock.metrics,
    penstock.state_processor,
    penstock.table,
    penstock.testing,
)


@cache
def doors() -> dict[str, ModuleType]:
    names = [
        *(package.__name__ for package in PUBLIC),
        *(
            found.name
            for package in PUBLIC
            for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        ),
    ]
    modules = {name: importlib.import_module(name) for name in names}
    return {name: module for name, module in modules.items() if hasattr(module, "__all__")}


def exported() -> list[tuple[str, str, Any]]:
    return [(door, name, getattr(module, name)) for door, module in doors().items() for name in module.__all__]


def test_a_name_means_one_thing() -> None:
    """Two classes of one name: which of them a program gets would depend on where it imports from."""
    things: dict[str, set[int]] = {}
    for _, name, thing in exported():
        things.setdefault(name, set()).add(id(thing))

    assert not {name for name, ids in things.items() if len(ids) > 1}


def test_what_is_exported_names_a_public_path() -> None:
    """`help`, tracebacks and stored pickles would show paths that change with our folders."""
    inside = {
        f"{door}.{name} says {thing.__module__}"
        for door, name, thing in exported()
        if isinstance(thing, (type, FunctionType)) and not is_public(thing.__module__)
    }

    assert not inside


def is_public(module: str) -> bool:
    """A door, or a module with one of PyFlink's paths that defines what it exports: penstock.common.types."""
    return module in doors() or module.startswith(("penstock.common.", "penstock.datastream."))


@pytest.mark.parametrize(("door", "name", "thing"), exported(), ids=lambda value: value if type(value) is str else "")
def test_the_path_that_it_names_leads_back(door: str, name: str, thing: Any) -> None:
    """What was pickled by that path, in a worker or in a checkpoint, could not be read."""
    if isinstance(thing, (type, FunctionType)):
        found: Any = importlib.import_module(thing.__module__)
        for part in thing.__qualname__.split("."):
            found = getattr(found, part)

        assert found is thing


@pytest.mark.parametrize("package", PUBLIC, ids=lambda package: package.__name__)
def test_a_name_that_nobody_knows(package: ModuleType) -> None:
    """pickle asks all modules for the name of a function without module: an ImportError would end that."""
    assert not hasattr(package, "no_such_name") and set(package.__all__) <= set(dir(package))


def test_users_see_public_paths() -> None:
    """A user who asks for help on a trigger would learn a path that he must not import from."""
    assert repr(Trigger) == "<class 'penstock.datastream.window.Trigger'>"
    assert repr(Trigger.TriggerContext) == "<class 'penstock.datastream.window.Trigger.TriggerContext'>"
    assert KeyedProcessFunction.__module__ == "penstock.datastream.functions"
    assert KeyedProcessFunction.OnTimerContext.__qualname__ == "KeyedProcessFunction.OnTimerContext"
    assert type(Types.LONG()).__module__ == "penstock.common.typeinfo"


@pytest.mark.parametrize(
    "value",
    [
        TimeWindow(0, 10),
        TumblingEventTimeWindows.of(10),
        ValueStateDescriptor("v", Types.ROW_NAMED(["a"], [Types.LONG()])),
        StateTtlConfig.UpdateType.OnReadAndWrite,
        StateTtlConfig.CleanupStrategies.Strategies.INCREMENTAL_CLEANUP,
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_inside_path_is_pickled(value: Any) -> None:
    """A program or a checkpoint that was pickled could not be read after a folder of ours is renamed."""
    data = pickle.dumps(value)

    assert b"penstock.api" not in data and b"basic_types" not in data and b"composite_types" not in data
    assert repr(pickle.loads(data)) == repr(value) or type(pickle.loads(data)) is type(value)
