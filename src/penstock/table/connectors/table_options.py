"""Options of a table, checked as Flink checks them: each must be known, and have a value of its type.

Source: Flink docs, "Table API Connectors"; FactoryUtil.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.common.config_options import ConfigOption
from penstock.common.configuration import Configuration
from penstock.common.errors import ConfigurationError
from penstock.table.planner.errors import SqlError

CONNECTOR = "connector"
_OF_ALL_SOURCES = frozenset(
    {
        CONNECTOR,
        "property-version",
        "scan.watermark.alignment.group",
        "scan.watermark.alignment.max-drift",
        "scan.watermark.alignment.update-interval",
        "scan.watermark.emit.on-event.gap",
        "scan.watermark.emit.strategy",
        "scan.watermark.idle-timeout",
    }
)
"""Options that each table to read has. The planner reads those of watermarks."""


class TableOptions:
    """The options of a table. `known`: those that its connector has.

    Raises SqlError, which names the table and the option, if one is not known or has a value of another type.
    """

    def __init__(self, identifier: str, given: Mapping[str, str], known: Sequence[ConfigOption[Any]]) -> None:
        self._identifier = identifier
        connector, keys = given.get(CONNECTOR, ""), sorted(one.key for one in known)
        if unknown := sorted(given.keys() - _OF_ALL_SOURCES - set(keys)):
            lacking = " and no ".join(map(repr, unknown))
            raise self.error(f"the connector {connector!r} has no option {lacking}. It has {', '.join(keys)}")
        configuration = Configuration.from_dict(dict(given))
        self._values: dict[str, Any] = {}
        for one in known:
            try:
                self._values[one.key] = configuration.get(one)
            except ConfigurationError as error:
                raise self.error(str(error)) from None

    def get(self, option: ConfigOption[Any]) -> Any:
        """Return the value of an option, or its default."""
        return self._values[option.key]

    def error(self, message: str) -> SqlError:
        """Return an error that names the table."""
        return SqlError(f"the table {self._identifier} can't be used: {message}")
