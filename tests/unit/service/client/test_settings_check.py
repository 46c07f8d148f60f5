"""Settings: each is read, or its user learns that it has no effect."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

import penstock
from penstock.common import Configuration, ExecutionConfig
from penstock.common.configuration import options
from penstock.common.errors import ConfigurationError
from penstock.service.client.settings_check import (
    WITHOUT_EFFECT,
    check_settings,
    check_streaming_settings,
    warn_of_lost_checkpoints,
)

SOURCES = Path(penstock.__file__).parent
ACCESSORS = ("execution_config.py", "checkpoint_config.py")
"""Getters and setters of PyFlink: a getter counts as a reader only if something calls it."""


def names_of_options() -> dict[str, object]:
    known = set(map(id, options.ALL_OPTIONS))
    return {name: value for name, value in vars(options).items() if id(value) in known}


def test_every_setting_is_read_or_reported() -> None:
    """A user would set something, and wait for an effect that never comes."""
    texts = {path: path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py") if path.name != "options.py"}
    readers = "\n".join(text for path, text in texts.items() if path.name not in (*ACCESSORS, "settings_check.py"))
    words, methods = set(re.findall(r"\w+", readers)), set(re.findall(r"\.(\w+)\(", readers))
    accessors = "\n".join(text for path, text in texts.items() if path.name in ACCESSORS)
    called = {
        name
        for method in accessors.split("    def ")
        if method.partition("(")[0] in methods
        for name in re.findall(r"options\.([A-Z_]+)", method)
    }
    reported = {id(option) for option in WITHOUT_EFFECT}
    silent = [
        name
        for name, option in names_of_options().items()
        if name not in words and name not in called and id(option) not in reported
    ]
    assert silent == []


def test_unaligned_and_at_least_once_exclude_each_other() -> None:
    """A user would wait for less back pressure from a setting that does nothing in this mode."""
    both = {"execution.checkpointing.unaligned.enabled": "true", "execution.checkpointing.mode": "AT_LEAST_ONCE"}
    with pytest.raises(ConfigurationError, match=r"unaligned.enabled: nothing is aligned in mode AT_LEAST_ONCE"):
        check_settings(Configuration.from_dict(both))


def test_a_checkpoint_of_each_superstep_needs_an_interval() -> None:
    """A user would believe that supersteps are saved."""
    each = {"penstock.checkpointing.each-superstep": "true"}
    with pytest.raises(ConfigurationError, match=r"each-superstep: the job takes no checkpoints; set execution\.check"):
        check_settings(Configuration.from_dict(each))
    check_settings(Configuration.from_dict({**each, "execution.checkpointing.interval": "10ms"}))


def test_settings_of_java_are_taken_and_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """A PyFlink program that sets them would stop with an AttributeError, or seem to get what it asks for."""
    configuration = Configuration()
    config = ExecutionConfig(configuration).enable_closure_cleaner().disable_force_kryo().disable_force_avro()
    with caplog.at_level(logging.WARNING):
        check_settings(configuration)
    assert not caplog.text and config.is_closure_cleaner_enabled()
    config.disable_closure_cleaner().enable_force_kryo().enable_force_avro()
    assert config.is_force_kryo_enabled() and config.is_force_avro_enabled() and not config.is_closure_cleaner_enabled()
    assert not config.get_registered_kryo_types() and not config.get_registered_pojo_types()
    assert config.get_default_kryo_serializer_classes() == {}
    with caplog.at_level(logging.WARNING):
        check_settings(configuration)
    assert [record.message.partition(" ")[0] for record in caplog.records] == [
        "pipeline.closure-cleaner-level",
        "pipeline.force-kryo",
        "pipeline.force-avro",
    ]


def test_what_has_no_effect_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """A setting taken over from Flink would seem to work."""
    configuration = Configuration.from_dict(
        {"execution.checkpointing.snapshot-compression": "true", "web.port": "8081", "web.history": "1"}
    )
    with caplog.at_level(logging.WARNING):
        check_settings(configuration)
    assert "snapshots are not compressed" in caplog.text
    assert "does not have these settings, so they have no effect: 'web.history', 'web.port'" in caplog.text
    caplog.clear()
    check_settings(Configuration())
    assert caplog.text == ""


@pytest.mark.parametrize("setting", [("parallelism.defalt", "2"), ("parallelism.default", "two")])
def test_misspelt_keys_and_wrong_values_are_refused(setting: tuple[str, str]) -> None:
    """A job would run with the default, unnoticed."""
    with pytest.raises(ConfigurationError, match=r"parallelism\.default"):
        check_settings(Configuration.from_dict(dict([setting])))


@pytest.mark.parametrize("master", ["foo", "127.0.0.1:7077", "http://host:7077", "mesos://host"])
def test_a_master_that_is_none_is_refused_before_spark_starts(master: str) -> None:
    """Seconds later there would be a page of Java's and PySpark's tracebacks."""
    with pytest.raises(ConfigurationError, match=rf"spark\.master must be spark://HOST:PORT.*got '{master}'"):
        check_settings(Configuration.from_dict({"spark.master": master}))


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local-cluster[1,2,1024]", "spark://a:1,b:2", "yarn", "k8s://a"]
)
def test_masters_of_spark_are_taken(master: str) -> None:
    """A cluster could not be used."""
    check_settings(Configuration.from_dict({"spark.master": master}))


@pytest.mark.parametrize("key", ["state.backend.type", "restart-strategy.type"])
def test_settings_of_the_job_master_are_refused_before_spark_starts(key: str) -> None:
    """A misspelt backend would be told after Spark's start, ten seconds later."""
    with pytest.raises(ConfigurationError, match=key):
        check_streaming_settings(Configuration.from_dict({key: "rocks"}))


def test_a_job_of_a_cluster_that_will_not_outlast_it_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """`cluster stop` says that its jobs go on with the next start, and weeks of counters would be gone then."""
    configuration = Configuration.from_dict({"execution.checkpointing.interval": "2 s"})
    warn_of_lost_checkpoints("counts", Configuration())
    assert not caplog.text
    warn_of_lost_checkpoints("counts", configuration)
    assert "of the job 'counts' are lost when the cluster stops" in caplog.text and "checkpointing.dir" in caplog.text
    caplog.clear()
    warn_of_lost_checkpoints("counts", configuration.set_string("execution.checkpointing.dir", "/data"))
    assert not caplog.text
