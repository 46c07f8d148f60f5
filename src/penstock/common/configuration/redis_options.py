"""The options of keyed state in Redis: `state.backend.type: redis`."""

from __future__ import annotations

from penstock.common.config_options import ConfigOptions

_PREFIX = "state.backend.redis."


def _key(name: str) -> ConfigOptions.OptionBuilder:
    return ConfigOptions.key(_PREFIX + name)


URL = (
    _key("url")
    .string_type()
    .no_default_value()
    .with_description("The server: redis://host:6379/0. Workers and the driver connect to it.")
)
USER = _key("user").string_type().no_default_value().with_description("Who connects.")
PASSWORD = _key("password").string_type().no_default_value().with_description("The user's password.")
CACHED_ENTRIES = (
    _key("cached-entries")
    .int_type(least=0)
    .default_value(50_000)
    .with_description(
        "Number of changed entries of a state held as Python objects, more of them wait as bytes for their checkpoint, "
        "and of the entries of an operator used last that are known without asking Redis; it may know twice as many."
    )
)
