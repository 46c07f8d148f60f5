"""Options of a table, checked as Flink checks them: each must be known, and have a value of its type.

Source: Flink docs, "Table API Connectors"; FactoryUtil.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from penstock.common.config_options import ConfigOption
from penstock.common.config_values import EnumType
from penstock.common.configuration import Configuration
from penstock.common.configuration.option_checks import closest
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

E = TypeVar("E", bound=enum.Enum)


class Choice(EnumType[E]):
    """A member of an enum by its value, which is Flink's spelling: `earliest-offset`."""

    def __init__(self, enum_class: type[E]) -> None:
        super().__init__(enum_class)
        self.name = f"one of {', '.join(str(one.value) for one in enum_class)}"

    def format(self, value: Any) -> str:
        """Return the spelling of a member."""
        return str(value.value) if isinstance(value, enum.Enum) else super().format(value)


class TableOptions:
    """The options of a table. `known`: those that its connector has. `prefixes`: of options with any other name.

    Raises SqlError, which names the table and the option, if one is not known or has a value of another type.
    """

    def __init__(
        self,
        identifier: str,
        given: Mapping[str, str],
        known: Sequence[ConfigOption[Any]],
        *,
        prefixes: tuple[str, ...] = (),
    ) -> None:
        self._identifier = identifier
        self._given = given
        connector, keys = given.get(CONNECTOR, ""), sorted(one.key for one in known)
        unknown = [key for key in sorted(given.keys() - _OF_ALL_SOURCES - set(keys)) if not key.startswith(prefixes)]
        if unknown:
            lacking = " and no ".join(map(repr, unknown))
            all_keys = ", ".join([*keys, *(f"{prefix}*" for prefix in prefixes)])
            near = [name for key in unknown for name in closest(key, keys)]
            meant = f". Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise self.error(f"the connector {connector!r} has no option {lacking}. It has {all_keys}{meant}")
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

    def required(self, option: ConfigOption[Any]) -> Any:
        """Return the value of an option. Raises SqlError if it is not set."""
        value = self.get(option)
        if value is None:
            raise self.error(f"the option {option.key!r} is required: write it in WITH (...)")
        return value

    def behind(self, prefix: str) -> dict[str, str]:
        """Return the options with this prefix, without it."""
        return {key.removeprefix(prefix): value for key, value in self._given.items() if key.startswith(prefix)}

    def error(self, message: str) -> SqlError:
        """Return an error that names the table."""
        return SqlError(f"the table {self._identifier} can't be used: {message}")
