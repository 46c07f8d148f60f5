"""Settings from a YAML file: nested or flat, where they come from, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.common.configuration.configuration_file import CONF_DIR, default_configuration, read_configuration
from penstock.common.errors import ConfigurationError
from penstock.datastream import StreamExecutionEnvironment

CONFIG = """
parallelism:
  default: 3
state.backend.type: rocksdb
execution:
  checkpointing: {interval: 10 s, unaligned.enabled: false}
pipeline:
  jars: [a.jar, b.jar]
  name: 2026-11-22
spark:
  master:
nothing: {}
"""


def test_nested_and_flat_keys_are_settings(tmp_path: Path) -> None:
    """A file of Flink's would have to be written again."""
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    assert read_configuration(file).to_dict() == {
        "parallelism.default": "3",
        "state.backend.type": "rocksdb",
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.unaligned.enabled": "false",
        "pipeline.jars": "a.jar;b.jar",
        "pipeline.name": "2026-11-22",
        "nothing": "{}",
    }
    file.write_text("# nothing yet\n")
    assert read_configuration(file).to_dict() == {}


@pytest.mark.parametrize("text", ["a: [", "- a\n- b", "just text", "a: !!python/object:x.Y {}"])
def test_what_is_no_file_of_settings_is_refused(tmp_path: Path, text: str) -> None:
    """A job would start with other settings than those in its file, or run code that is in it."""
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=r"config\.yaml"):
        read_configuration(file)


def test_each_environment_starts_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What holds for all jobs of a machine would be repeated on each command line."""
    monkeypatch.delenv(CONF_DIR, raising=False)
    assert default_configuration().to_dict() == {}
    (tmp_path / "config.yaml").write_text("parallelism.default: 3\n")
    monkeypatch.setenv(CONF_DIR, str(tmp_path))
    env = StreamExecutionEnvironment.get_execution_environment()
    assert env.get_parallelism() == 3
    assert env.set_parallelism(2).get_parallelism() == 2
    monkeypatch.setenv(CONF_DIR, str(tmp_path / "missing"))
    with pytest.raises(ConfigurationError, match="can't be read: No such file"):
        StreamExecutionEnvironment()
