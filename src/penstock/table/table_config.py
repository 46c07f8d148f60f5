"""`TableConfig`: the options of a table environment. Source: PyFlink, pyflink.table.TableConfig."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.common.configuration import Configuration
from penstock.table.query_options import ZONE, value_of


class TableConfig:
    """Options by Flink's names, such as `table.exec.mini-batch.enabled`. Later statements are planned by them."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._configuration = Configuration.from_dict(options)

    def set(self, key: str, value: Any) -> TableConfig:
        """Set an option. A value is text, or has one: True is `true`."""
        self._configuration.set_string(key, str(value).lower() if isinstance(value, bool) else str(value))
        return self

    def get(self, key: str, default_value: Any) -> Any:
        """Return the value of an option as text, or the default."""
        return self.to_dict().get(key, default_value)

    def get_configuration(self) -> Configuration:
        """Return the options as a Configuration. What is set in it is set here."""
        return self._configuration

    def add_configuration(self, configuration: Configuration) -> None:
        """Set all options of a configuration."""
        self._configuration.add_all(configuration)

    def get_local_timezone(self) -> str:
        """Return the session's time zone: of TIMESTAMP_LTZ, and of what is between it and TIMESTAMP."""
        return str(value_of(self.to_dict(), ZONE))

    def set_local_timezone(self, timezone_id: str) -> None:
        """Set the session's time zone by its name: `Europe/Berlin`, `UTC+8`."""
        self.set(ZONE.key, timezone_id)

    def reset(self, initial: Mapping[str, str], key: str | None = None) -> None:
        """Bring back the value that an option has in `initial`; without a key those of all options. Not in PyFlink."""
        for one in list(self.to_dict()) if key is None else [key]:
            self._configuration.remove_config(one)
            if one in initial:
                self.set(one, initial[one])

    def to_dict(self) -> dict[str, str]:
        """Return all options that are set. Not in PyFlink."""
        return self._configuration.to_dict()
