"""A session that the user passes: used if it is suitable, else refused with the settings to change."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.common import Configuration
from penstock.common.errors import ConfigurationError, NotEnoughSlotsError
from penstock.hosts.spark.driver import session as driver_session
from penstock.hosts.spark.driver.held_slots import HELD_SLOTS, HeldSlots
from penstock.hosts.spark.driver.session import cluster_settings, control_host, session_for, session_is_local
from penstock.hosts.spark.internals.settings import FIXED_AT_START


class Conf:
    """As SparkConf looks settings up."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._settings = settings

    def get(self, key: str, default: str | None = None) -> str | None:
        return self._settings.get(key, default)


def session(master: str = "local[8]", parallelism: int = 8, **settings: str) -> Any:
    """A running session with all settings that a pipelined job needs, and these."""
    conf = Conf({**FIXED_AT_START, **{key.replace("_", "."): value for key, value in settings.items()}})
    context = SimpleNamespace(master=master, defaultParallelism=parallelism, getConf=lambda: conf, _jsc=object())
    return SimpleNamespace(sparkContext=context)


def without(key: str, value: str | None = None) -> Any:
    settings = {name: fixed for name, fixed in FIXED_AT_START.items() if name != key}
    found = session()
    conf = Conf(settings if value is None else {**settings, key: value})
    found.sparkContext.getConf = lambda: conf
    return found


def test_a_suitable_session_is_used() -> None:
    """A program would start a second Spark in addition to the one that it has configured."""
    given = session()
    assert session_for(8, True, Configuration(), given) is given


def test_another_version_of_spark_is_refused_before_anything_starts(monkeypatch) -> None:
    """A job would fail somewhere inside Spark, or run slowly, and nothing would say why."""
    monkeypatch.setattr("pyspark.version.__version__", "4.4.1")
    with pytest.raises(ConfigurationError, match=r"PySpark 4\.4\.1.*pip install"):
        session_for(2, False, Configuration(), session())


@pytest.mark.parametrize("key", FIXED_AT_START)
def test_each_setting_that_is_fixed_at_start_is_required(key) -> None:
    """A record would take tens of milliseconds to seconds per exchange, and nothing would say why."""
    with pytest.raises(ConfigurationError) as caught:
        session_for(2, True, Configuration(), without(key))
    lines = [line.strip() for line in str(caught.value).splitlines()[1:]]
    assert lines == [f"{key}={FIXED_AT_START[key]}"]
    assert "run the job in BATCH mode" in str(caught.value)


@pytest.mark.parametrize("key", ["spark.speculation", "spark.dynamicAllocation.enabled"])
def test_settings_that_move_tasks_are_rejected(key) -> None:
    """A slot would run twice, or its executor would be taken away while the job runs."""
    with pytest.raises(ConfigurationError, match=f"{key}=false"):
        session_for(2, True, Configuration(), without(key, "true"))


def test_batched_jobs_run_in_any_session() -> None:
    """A batch job in the user's own session would be refused for settings that it does not need."""
    given = without("spark.buffer.size")
    assert session_for(2, False, Configuration(), given) is given


@pytest.mark.parametrize(
    ("master", "parallelism", "settings", "slots"),
    [
        ("local[4]", 4, {}, 4),
        ("local[4,2]", 4, {}, 4),
        ("local-cluster[3,4,2048]", 2, {}, 12),
        ("spark://host:7077", 2, {"spark_cores_max": "16"}, 16),
        ("spark://host:7077", 2, {"spark_cores_max": "16", "spark_task_cpus": "2"}, 8),
        ("yarn", 2, {"spark_executor_instances": "5", "spark_executor_cores": "4"}, 20),
        ("k8s://https://host", 2, {"spark_executor_instances": "5"}, 5),
    ],
)
def test_slots_are_counted_by_the_kind_of_master(master, parallelism, settings, slots) -> None:
    """A job would wait without end for slots that do not exist, or be refused where there are enough."""
    given = session(master, parallelism, **settings)
    assert session_for(slots, True, Configuration(), given) is given
    with pytest.raises(NotEnoughSlotsError) as caught:
        session_for(slots + 1, True, Configuration(), given)
    assert f"needs {slots + 1} slots at once, Spark's {master} has {slots}" in str(caught.value)
    more = {"local": "spark.master: local[", "spark:": "spark.cores.max: ", "yarn": "spark.executor.instances"}
    assert more.get(master[:6].partition("[")[0].partition("-")[0], "spark.executor.instances") in str(caught.value)


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host"])
def test_executors_that_nothing_limits_are_waited_for(master: str) -> None:
    """A job would be refused while its executors are on their way."""
    given = session(master, 2)
    assert session_for(99, True, Configuration(), given) is given


def test_a_session_on_a_cluster_asks_for_the_slots_of_its_job() -> None:
    """A job would take all of a cluster, and the next one wait for its end; or get two slots, Spark's default."""
    assert cluster_settings("local[4]", 6, {}) == {}
    for master in ("yarn", "k8s://https://host"):
        for given, instances in (({}, "6"), ({"spark.executor.cores": "4"}, "2"), ({"spark.task.cpus": "2"}, "12")):
            assert cluster_settings(master, 6, given)["spark.executor.instances"] == instances
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"spark://127.0.0.1:{listener.getsockname()[1]}"
        asked = cluster_settings(url, 6, {})
    assert (asked["spark.cores.max"], asked["spark.driver.host"]) == ("6", "127.0.0.1")


def test_the_control_port_is_bound_where_executors_reach_it() -> None:
    """Tasks on other machines could not register; or the port of a local job would be open to the network."""
    local = session("local[2]", spark_driver_host="192.0.2.7")
    assert (session_is_local(local), control_host(local)) == (True, "127.0.0.1")
    cluster = session("spark://host:7077", spark_driver_host="192.0.2.7")
    assert (session_is_local(cluster), control_host(cluster)) == (False, "192.0.2.7")
    assert control_host(session("yarn")) == "127.0.0.1"


@pytest.fixture
def held() -> Iterator[HeldSlots]:
    yield HELD_SLOTS
    for job in ("a", "b"):
        HELD_SLOTS.release(job)


def test_slots_that_other_jobs_hold_are_not_free(held: HeldSlots) -> None:
    """The second of two jobs that don't fit side by side would start half of its tasks, and wait forever."""
    given = session(parallelism=8)
    held.hold("a", "orders", 5)
    assert session_for(3, True, Configuration(), given) is given
    with pytest.raises(NotEnoughSlotsError, match=r"needs 4 slots at once.* has 8, of which .* hold 5: 'orders' \(5\)"):
        session_for(4, True, Configuration(), given)
    held.release("a")
    assert session_for(8, True, Configuration(), given) is given


class Own(SimpleNamespace):
    """A session that penstock has started."""

    stopped = False

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Own:
    started = Own(**vars(session(parallelism=8)))
    monkeypatch.setattr(driver_session, "started_session", started)
    monkeypatch.setattr(driver_session, "is_alive", lambda running: True)
    monkeypatch.setattr(driver_session, "start_session", lambda slots, *_, **settings: session(parallelism=slots))
    return started


def test_a_session_that_a_job_uses_is_not_stopped_for_another_one(own: Own, held: HeldSlots) -> None:
    """The first job would fail because a second one is larger, or wants other settings."""
    held.hold("a", "orders", 5)
    held.hold("b", "a batch", 0)
    with pytest.raises(NotEnoughSlotsError, match=r"'orders' \(5\), 'a batch' \(0\)"):
        session_for(9, True, Configuration(), own)
    with pytest.raises(ConfigurationError, match=r"spark\.executor\.memory=9g"):
        session_for(1, True, Configuration.from_dict({"spark.executor.memory": "9g"}), own)
    assert not own.stopped
    held.release("a")
    held.release("b")
    assert session_for(9, True, Configuration(), own) is not own
    assert own.stopped


def test_a_session_that_another_thread_has_started_is_used(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's active session is that of a thread: the next job would get one whose slots nobody has counted."""
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    assert session_for(8, True, Configuration(), None) is own
    assert session_for(9, True, Configuration(), None) is not own
