"""The format that a table names by an option, with its own options behind its name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from penstock.common.config_options import ConfigOption
from penstock.table.connectors.formats.message_format import MessageFormat, format_class, format_names
from penstock.table.connectors.table_options import TableOptions
from penstock.table.planner.errors import SqlError


class ChosenFormat:
    """The format of an option such as `format` or `value.format`. `given`: the options of the table.

    `prefix`: what precedes the name of the format in its options, such as `value.`.
    """

    def __init__(self, given: Mapping[str, str], key: str, *, prefix: str = "") -> None:
        self.name = given.get(key)
        self._prefix = prefix
        self._class = None if self.name is None else format_class(self.name)

    @property
    def options(self) -> list[ConfigOption[Any]]:
        """The options of the format, as the table has them; empty if there is no such format."""
        return [] if self._class is None else [self._of_table(one) for one in self._class.options]

    def check(self, identifier: str) -> None:
        """Raise SqlError, which names the table, if there is no format of this name."""
        if self.name is not None and self._class is None:
            raise SqlError(
                f"the table {identifier} can't be used: the format {self.name!r} does not exist. Formats: "
                f"{', '.join(format_names())}"
            )

    def make(self, options: TableOptions) -> MessageFormat:
        """Return the format. Raises SqlError, which names the table, for options that exclude each other."""
        assert self._class is not None, "check was called"
        try:
            return self._class({one.key: options.get(self._of_table(one)) for one in self._class.options})
        except ValueError as error:
            raise options.error(f"{self._prefix}{self.name}.{error}") from None

    def _of_table(self, one: ConfigOption[Any]) -> ConfigOption[Any]:
        return dataclasses.replace(one, key=f"{self._prefix}{self.name}.{one.key}")
