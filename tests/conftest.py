"""What holds for all tests, and how processes share them."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import chdir
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from tests.first_cases import run_selects

if TYPE_CHECKING:
    from xdist.scheduler import Scheduling

# On a machine that is busy with other tests an example, or making it, takes as long as it takes. Examples are the same
# in each run: what `--hypothesis-profile=search` finds is no surprise to who has changed something else.
_profile = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
settings.register_profile("search", _profile)
settings.register_profile("penstock", _profile, derandomize=True)
settings.load_profile("penstock")

# Built in the background after a first job, it would take its time from the tests that follow.
os.environ.setdefault("PENSTOCK_CLASS_ARCHIVE", "use")
# Most JVMs of tests live for seconds: the compiler's last stage and a collector with threads of its own don't pay.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

LEND_JVMS = "PENSTOCK_KEEP_SESSION"
LANES = {"e2e": "programs", "chaos": "programs", "spark": "jobs"}
"""Folders on Spark, and who shares a process: what is started from a command line waits for JVMs most of the time, and
leaves a core to the jobs inside of pytest. Three at a time would miss each other's deadlines."""
STARTING_PROGRAMS = ("tests/spark/test_refusals.py",)
"""Files on Spark that spend their time in programs which they start. They share the process of other such tests, and
both lanes end together: the longer one decides how long a run takes."""
ON_KAFKA = "tests/connectors/test_kafka"
"""What files with one broker begin with, one after the other: its start, and what it compiles, cost 15 s of CPU."""
SQL_PROGRAMS = "tests/simulation/test_sql_"
"""What files with the same programs of SQL begin with: to plan them, and run them without faults, takes a minute."""
LONG_FILES_FIRST = [*LANES, "simulation"]
"""Processes that share the tests begin with these folders, so that they end together."""
GARBAGE_OBJECTS = 50_000
"""So many new objects until garbage is looked for, instead of Python's 700: a simulated program takes a sixth less."""
NICENESS = 5
"""Of tests beside those on Spark: they take what these leave of the cores."""


@pytest.fixture(scope="session", autouse=True)
def relative_names_lead_out_of_the_tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a program writes by a relative name, as those of the documentation do, would end in a commit."""
    with chdir(tmp_path_factory.mktemp("working_directory")):
        yield


@pytest.fixture(scope="session")
def lent_jvms_end() -> Iterator[None]:
    """With the tests, and not ten minutes later."""
    yield
    from penstock.hosts.spark.driver.jvm_lease import end_free_jvms

    end_free_jvms(os.environ)


@pytest.fixture
def lent_jvms(lent_jvms_end: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that a test starts have one JVM after the other: most of a program's start is the JVM's."""
    monkeypatch.setenv(LEND_JVMS, "true")


@pytest.fixture
def process_without_endpoint() -> Iterator[None]:
    """An earlier test's job may have left one; this test leaves none."""
    from penstock.service.rest.endpoint import close_endpoint_of_process

    close_endpoint_of_process()
    yield
    close_endpoint_of_process()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a case by its number where its bytes would name it: an archive holds the second in which it was written, and
    the processes that share the tests must agree on their names."""
    return argname if isinstance(val, bytes | bytearray) else None


def pytest_configure(config: pytest.Config) -> None:
    """Let parameters of the soak be made only if it is run."""
    run_selects(config.getoption("markexpr"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without looking for garbage, never look for it in what was imported, and seldom in tests.

    Nearly all of that stays. To go through it again and again took a third of the collection, and a tenth of the tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(GARBAGE_OBJECTS)
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put files in the order in which pytest-xdist hands them to its processes."""
    if _is_one_of_several(config):
        items.sort(key=lambda item: _place(_folder(item.nodeid)))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Step back behind tests on Spark, which come first and run in another process."""
    beside_spark = _is_on_spark(item.session.items[0].nodeid) and not _is_on_spark(item.nodeid)
    if _is_one_of_several(item.config) and beside_spark and os.nice(0) < NICENESS:
        os.nice(NICENESS - os.nice(0))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    """As --dist loadfile, but all files of a lane go to one process, and so do those on a broker."""
    from xdist.scheduler import LoadFileScheduling

    class LanesHaveProcesses(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(ON_KAFKA):
                return "broker"
            if nodeid.startswith(SQL_PROGRAMS):
                return "sql"
            if nodeid.startswith(STARTING_PROGRAMS):
                return "programs"
            return LANES.get(_folder(nodeid)) or super()._split_scope(nodeid)

    return LanesHaveProcesses(config, log) if config.getoption("dist") == "loadfile" else None


def _is_one_of_several(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _folder(nodeid: str) -> str:
    """Of "tests/spark/test_cancel.py::test_it": "spark"."""
    return nodeid.split("/")[1]


def _is_on_spark(nodeid: str) -> bool:
    return _folder(nodeid) in LANES


def _place(folder: str) -> int:
    return LONG_FILES_FIRST.index(folder) if folder in LONG_FILES_FIRST else len(LONG_FILES_FIRST)
