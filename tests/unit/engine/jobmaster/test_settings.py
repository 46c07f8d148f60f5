"""What of a configuration reaches the job master: its settings, and the state backend."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from penstock.common.configuration import Configuration
from penstock.common.configuration.choices import ExternalizedCheckpointRetention
from penstock.common.errors import ConfigurationError
from penstock.engine.checkpoint.schedule import CheckpointSettings
from penstock.engine.jobmaster import backends
from penstock.engine.jobmaster.backends import store_settings
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.runtime.task.vertex import RocksDBSettings


@pytest.mark.parametrize(
    ("key", "value", "field", "expected"),
    [
        ("execution.checkpointing.interval", "10 s", "interval_ms", 10_000),
        ("execution.checkpointing.timeout", "2 min", "timeout_ms", 120_000),
        ("execution.checkpointing.min-pause", "7 s", "pause_ms", 7_000),
        ("execution.checkpointing.max-concurrent-checkpoints", "3", "concurrent_max", 3),
        ("execution.checkpointing.tolerable-failed-checkpoints", "4", "failures_tolerated", 4),
        ("execution.checkpointing.num-retained", "5", "retained", 5),
        (
            "execution.checkpointing.externalized-checkpoint-retention",
            "RETAIN_ON_CANCELLATION",
            "checkpoint_retention",
            ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION,
        ),
        ("execution.state-recovery.ignore-unclaimed-state", "true", "allow_non_restored_state", True),
        ("heartbeat.timeout", "20 s", "heartbeat_timeout_ms", 20_000),
        ("task.cancellation.timeout", "0", "cancellation_timeout_ms", 0),
        ("slot.request.timeout", "1 min", "slot_request_timeout_ms", 60_000),
    ],
)
def test_an_option_sets_one_field_and_no_other(key: str, value: str, field: str, expected: Any) -> None:
    """A timeout would be taken for a pause: the settings have the same type, and no error would be raised."""
    changed = flat(JobSettings.of(Configuration.from_dict({key: value})))
    default = flat(JobSettings.of(Configuration()))
    assert changed[field] == expected != default[field]
    assert {name for name in changed if changed[name] != default[name]} == {field}


def flat(settings: JobSettings) -> dict[str, Any]:
    fields = dict(vars(settings))
    checkpoints: CheckpointSettings = fields.pop("checkpoints")
    return {**fields, **vars(checkpoints)}


def test_without_settings_the_defaults_are_those_of_the_options() -> None:
    """A job in the simulator, or in a test, would have other timeouts than one in production."""
    assert JobSettings.of(Configuration()) == JobSettings()


def test_state_is_on_the_heap_unless_another_backend_is_named() -> None:
    """A program without settings would need RocksDB."""
    assert store_settings(Configuration()) is None
    assert store_settings(Configuration.from_dict({"state.backend.type": "HashMap"})) is None


def test_settings_of_rocksdb(monkeypatch: pytest.MonkeyPatch) -> None:
    """State would fill a small system disk though a large one is named, or use more memory than a worker has."""
    monkeypatch.setattr(backends, "find_spec", lambda name: importlib.util.find_spec("json"))
    named = {
        "state.backend": "rocksdb",
        "state.backend.rocksdb.localdir": "/large-disk",
        "state.backend.rocksdb.memory.fixed-per-slot": "8 mb",
        "state.backend.rocksdb.cached-entries": "9",
    }
    assert store_settings(Configuration.from_dict(named)) == RocksDBSettings("/large-disk", 8 << 20, 9)


def test_a_backend_that_is_not_there_is_an_error_before_the_job_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job would fail on the executors, with an ImportError that does not say what to install."""
    monkeypatch.setattr(backends, "find_spec", lambda name: None)
    with pytest.raises(
        ConfigurationError, match=r"pip install 'penstock-streams\[rocksdb\]' here and on the executors"
    ):
        store_settings(Configuration.from_dict({"state.backend.type": "rocksdb"}))
    with pytest.raises(
        ConfigurationError, match=r"state\.backend\.type must be hashmap, rocksdb, postgres or redis, got 'forst'"
    ):
        store_settings(Configuration.from_dict({"state.backend.type": "forst"}))


def test_state_in_redis_needs_checkpoints() -> None:
    """What changes would be held in memory until the worker has none left: it goes to Redis with checkpoints."""
    pytest.importorskip("redis")
    settings = {"state.backend.type": "redis", "state.backend.redis.url": "redis://cache:6379/0"}
    for interval in ({}, {"execution.checkpointing.interval": "0"}):
        with pytest.raises(ConfigurationError, match=r"set execution\.checkpointing\.interval, for example 10s"):
            store_settings(Configuration.from_dict({**settings, **interval}))
    assert store_settings(Configuration.from_dict({**settings, "execution.checkpointing.interval": "10s"})) is not None


SERVERS = {"postgres": ("psycopg", "postgresql://"), "redis": ("redis", "redis://")}


@pytest.mark.parametrize("backend", SERVERS)
@pytest.mark.parametrize(
    ("url", "said"),
    [
        (None, "is {0}: set state.backend.{0}.url, for example {1}host:"),
        ("mysql://host/db", "state.backend.{0}.url: .* must begin with {1}.*mysql://"),
        ("{1}ada:a-secret@host/0", "set it as state.backend.{0}.password"),
        ("{1}[host:a-secret/0", "cannot read the url"),
    ],
)
def test_a_server_of_state_is_checked_before_the_job_starts(backend: str, url: str | None, said: str) -> None:
    """The job would fail in its workers, again and again, or show the password on the page of settings."""
    package, scheme = SERVERS[backend]
    pytest.importorskip(package)
    settings = {"state.backend.type": backend, "execution.checkpointing.interval": "10s"}
    if url is not None:
        settings[f"state.backend.{backend}.url"] = url.replace("{1}", scheme)
    with pytest.raises(ConfigurationError, match=said.format(backend, scheme)) as raised:
        store_settings(Configuration.from_dict(settings))
    assert "a-secret" not in str(raised.value)
