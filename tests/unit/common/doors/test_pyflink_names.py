"""PyFlink's names: found by all of its paths, and those that are left out say what to do."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.common.doors import pyflink_names
from penstock.datastream import CheckpointConfig, StreamExecutionEnvironment

TABLE = tomllib.loads(
    (Path(penstock.__file__).parent / "common" / "doors" / "pyflink.toml").read_text(encoding="utf-8")
)


def elsewhere() -> Iterator[tuple[str, str, str]]:
    for module, homes in TABLE["elsewhere"].items():
        for home, names in homes.items():
            yield from ((module.replace("pyflink", "penstock", 1), name, home) for name in names)


@pytest.mark.parametrize(("module", "name", "home"), list(elsewhere()), ids=lambda part: part.removeprefix("penstock."))
def test_a_name_is_found_where_a_module_of_pyflink_imports_it(module: str, name: str, home: str) -> None:
    """`from pyflink.datastream.window import Time`, as in many programs, would be an ImportError."""
    found = getattr(importlib.import_module(module), name)
    assert found is getattr(importlib.import_module(home), name)


@pytest.mark.parametrize(
    ("statement", "advice"),
    [
        ("from penstock.datastream.connectors import RMQSink", "docs/how-to/own-sink.md"),
        ("from penstock.datastream.connectors import FlinkKafkaConsumer", "`KafkaSource` of `connectors.kafka`"),
        ("from penstock.datastream import EmbeddedRocksDBStateBackend", "state.backend.type: rocksdb"),
        ("from penstock.datastream import TimeCharacteristic", "event time is always on"),
        ("from penstock.datastream.checkpoint_config import ExternalizedCheckpointCleanup", "Retention"),
    ],
)
def test_a_name_that_is_left_out_says_what_to_do(statement: str, advice: str) -> None:
    """Whoever moves a program would read "cannot import name" and have to search."""
    with pytest.raises(ImportError, match=advice):
        exec(statement)


def test_a_name_of_nobody_is_missing_as_from_any_module() -> None:
    """`hasattr` of a package would raise, and a misspelt name be explained by what it is not."""
    with pytest.raises(ImportError, match="cannot import name 'JdbcSing'"):
        exec("from penstock.datastream.connectors import JdbcSing")
    assert not hasattr(importlib.import_module("penstock.common"), "__wrapped__")


def test_methods_of_older_pyflink_say_what_to_do() -> None:
    """Most programs on the web are written for PyFlink 1: each would end in an AttributeError without a remedy."""
    env = StreamExecutionEnvironment()
    for owner, method, advice in [
        (env, "set_stream_time_characteristic", "event time is always on"),
        (env, "set_restart_strategy", "restart-strategy.type"),
        (env, "set_state_backend", "state.backend.type"),
        (env.from_collection([1]).key_by(str), "time_window", "TumblingEventTimeWindows"),
        (CheckpointConfig(env._configuration), "enable_externalized_checkpoints", "set_externalized_checkpoint"),
    ]:
        with pytest.raises(AttributeError, match=advice):
            getattr(owner, method)
    with pytest.raises(AttributeError, match="'StreamExecutionEnvironment' object has no attribute 'exekute'"):
        env.exekute  # type: ignore[attr-defined]  # noqa: B018


def test_a_package_answers_for_what_is_in_it() -> None:
    """A module that is left out would say nothing unless each of its names were listed."""
    assert pyflink_names.reason("pyflink.datastream.connectors.pulsar") is not None
    assert pyflink_names.reason("pyflink.metrics Counter") is None
