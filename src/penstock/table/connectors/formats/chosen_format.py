"""The format that a table names by an option, with its own options behind its name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from penstock.common.config_options import ConfigOption
from penstock.table.connectors.formats.message_format import MessageFormat, format_class, format_names
from penstock.table.connectors.table_options import TableOptions


class ChosenFormat:
    """The format of an option such as `format` or `value.format`. `given`: the options of the table.

