"""The options of keyed state in PostgreSQL: `state.backend.type: postgres`."""

from __future__ import annotations

from penstock.common.config_options import ConfigOptions

_PREFIX = "state.backend.postgres."


def _key(name: str) -> ConfigOptions.OptionBuilder:
    return ConfigOptions.key(_PREFIX + name)


URL = (
    _key("url")
    .string_type()
    .no_default_value()
    .with_description("The database: postgresql://host:5432/database. Workers and the driver connect to it.")
)
USER = (
    _key("user")
    .string_type()
    .no_default_value()
    .with_description("Who connects. Not set: as the url, or the environment of the processes, says.")
)
PASSWORD = (
    _key("password")
    .string_type()
    .no_default_value()
    .with_description("The user's password. Not set: from the environment, or a password file, of the processes.")
)
CACHED_ENTRIES = (
    _key("cached-entries")
    .int_type(least=0)
    .default_value(50_000)
    .with_description(
        "Number of changed entries of a state held in memory before they are written to PostgreSQL, and of the entries "
        "of an operator used last that are known without asking it; it may know twice as many."
    )
)
