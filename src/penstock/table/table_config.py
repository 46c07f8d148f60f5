"""`TableConfig`: the options of a table environment. Source: PyFlink, pyflink.table.TableConfig."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ZONE = "table.local-time-zone"


class TableConfig:
    """Options by Flink's names, such as `table.exec.mini-batch.enabled`. Later statements are planned by them."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)

    def set(self, key: str, value: Any) -> TableConfig:
        """Set an option. A value is text, or has one: True is `true`."""
        self._options[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return self

    def get(self, key: str, default_value: Any) -> Any:
        """Return the value of an option as text, or the default."""
        return self._options.get(key, default_value)

    def get_local_timezone(self) -> str:
        """Return the session's time zone: of TIMESTAMP_LTZ, and of what is between it and TIMESTAMP."""
        return self._options.get(_ZONE, "UTC")

    def set_local_timezone(self, timezone_id: str) -> None:
        """Set the session's time zone by its name: `Europe/Berlin`, `UTC+8`."""
        self.set(_ZONE, timezone_id)

    def reset(self, initial: Mapping[str, str], key: str | None = None) -> None:
        """Bring back the value that an option has in `initial`; without a key those of all options. Not in PyFlink."""
        for one in list(self._options) if key is None else [key]:
            self._options.pop(one, None)
            if one in initial:
                self._options[one] = initial[one]

    def to_dict(self) -> dict[str, str]:
        """Return all options that are set. Not in PyFlink."""
        return dict(self._options)
