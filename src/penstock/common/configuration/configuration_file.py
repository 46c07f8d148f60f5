"""Settings from a YAML file, like Flink's config.yaml.

Nested keys are joined by dots: `state: {backend: {type: rocksdb}}` and `state.backend.type: rocksdb` are the same
setting. Source: Flink docs, "Configuration", Flink Configuration File.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from penstock.common.config_values import to_text
from penstock.common.configuration import Configuration
from penstock.common.errors import ConfigurationError

CONF_DIR = "PENSTOCK_CONF_DIR"
"""The environment variable that names the directory of `config.yaml`, as FLINK_CONF_DIR does for Flink."""
FILE_NAME = "config.yaml"


def default_configuration() -> Configuration:
    """Return the settings in `$PENSTOCK_CONF_DIR/config.yaml`, or no settings if the variable is not set or empty.

    Raises ConfigurationError if the file can't be read.
    """
    directory = os.environ.get(CONF_DIR)
    return read_configuration(Path(directory) / FILE_NAME) if directory else Configuration()


def read_configuration(path: str | os.PathLike[str]) -> Configuration:
    """Return the settings in a YAML file. Raises ConfigurationError if it can't be read or does not have settings."""
    # Imported here, not at the top: most programs have no such file.
    import yaml

    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"the configuration file {path} can't be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the configuration file {path} is not YAML: {error}") from None
    if not isinstance(content, dict | None):
        raise ConfigurationError(f"the configuration file {path} must have lines KEY: VALUE, got {content!r:.80}")
    configuration = Configuration()
    for key, value in _settings_in(content or {}, ""):
        try:
            configuration.set_string(key, to_text(value))
        except TypeError as error:
            raise ConfigurationError(f"the configuration file {path}: {key}: {error}") from None
    return configuration


def _settings_in(content: Mapping[Any, Any], before: str) -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        if isinstance(value, dict) and value:
            yield from _settings_in(value, f"{before}{key}.")
        elif value is not None:
            # YAML parses dates, which as a setting are text.
            yield f"{before}{key}", str(value) if isinstance(value, datetime.date) else value
