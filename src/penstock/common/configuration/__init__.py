"""The configuration of a program: keys and values, both text."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final, TypeAlias, TypeVar

from penstock.common.config_options import ConfigOption
from penstock.common.config_values import BooleanType, FloatType, IntegerType, ValueType, parse_list, to_text
from penstock.common.errors import ConfigurationError

T = TypeVar("T")
D = TypeVar("D")

_Keys: TypeAlias = set[str]  # within the class, `set` is a method

_INTEGER: Final = IntegerType(64)
_BOOLEAN: Final = BooleanType()
_FLOAT: Final = FloatType()

_HIDDEN: Final = "******"
_SENSITIVE: Final = (
    "password", "secret", "fs.azure.account.key", "apikey", "api-key", "auth-params", "service-key", "token",
    "basic-auth", "jaas.config", "http-headers",
)  # fmt: skip


class Configuration:
    """Settings by key, all stored as text.

    Setters return the configuration itself. Getters raise ConfigurationError if the stored value does not have the
    requested type.
    """

    __slots__ = ("_entries",)

    def __init__(self, other: Configuration | None = None) -> None:
        self._entries: dict[str, str] = {} if other is None else dict(other._entries)

    @classmethod
    def from_dict(cls, map: Mapping[str, Any]) -> Configuration:
        """Create a configuration with these settings; values that are not text are formatted as by `set`."""
        configuration = cls()
        for key, value in map.items():
            configuration.set_string(key, to_text(value))
        return configuration

    def get(self, option: ConfigOption[T]) -> T:
        """Return the value of an option: of its own key, else of its fallback keys in order, else its default."""
        key = self._key_of(option)
        return option.default if key is None else self._parse(key, option.value_type)

    def set(self, option: ConfigOption[T], value: Any) -> Configuration:
        """Set an option. Text has the syntax of a configuration file; None removes the setting.

        Durations may be a Duration, Time, timedelta or an int of milliseconds. Raises ConfigurationError if the value
        does not have the option's type.
        """
        if value is None:
            self.remove_config(option.key)
            return self
        try:
            self._entries[option.key] = option.value_type.format(value)
        except (TypeError, ValueError) as error:
            raise _wrong_value(option.key, option.value_type, error) from None
        return self

    def contains(self, option: ConfigOption[Any]) -> bool:
        """Return whether the option is set, under its own key or a fallback key."""
        return self._key_of(option) is not None

    def _key_of(self, option: ConfigOption[Any]) -> str | None:
        for key in (option.key, *option.fallback_keys):
            if key in self._entries:
                return key
        return None

    def _parse(self, key: str, value_type: ValueType[T]) -> T:
        try:
            return value_type.parse(self._entries[key])
        except ValueError as error:
            raise _wrong_value(key, value_type, error) from None

    def get_string(self, key: str, default_value: D) -> str | D:
        """Return the text set for `key`, else `default_value`."""
        return self._entries.get(key, default_value)

    def set_string(self, key: str, value: str) -> Configuration:
        """Set `key`. Raises TypeError unless key and value are str."""
        if not all(isinstance(text, str) for text in (key, value)):
            raise TypeError(f"key and value must be str, got {key!r} and {value!r}")
        self._entries[key] = value
        return self

    @staticmethod
    def parse_list_value(value: str | None) -> list[str]:
        """Parse a list written in YAML or as `a;b`; empty text and None give []. Parts of `a;b` keep their spaces."""
        if not value:
            return []
        return parse_list(value) if value.lstrip().startswith(("[", "- ")) else value.split(";")

    def get_integer(self, key: str, default_value: D) -> int | D:
        """Return the int set for `key`, else `default_value`."""
        return self._parse(key, _INTEGER) if key in self._entries else default_value

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set `key` to an int."""
        return self.set_string(key, to_text(int(value)))

    def get_boolean(self, key: str, default_value: D) -> bool | D:
        """Return the bool set for `key`, else `default_value`."""
        return self._parse(key, _BOOLEAN) if key in self._entries else default_value

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set `key` to true or false."""
        return self.set_string(key, to_text(bool(value)))

    def get_float(self, key: str, default_value: D) -> float | D:
        """Return the float set for `key`, else `default_value`, an int as a float."""
        if key in self._entries:
            return self._parse(key, _FLOAT)
        return float(default_value) if isinstance(default_value, int) else default_value

    def set_float(self, key: str, value: float) -> Configuration:
        """Set `key` to a number."""
        return self.set_string(key, to_text(float(value)))

    def get_bytearray(self, key: str, default_value: bytes | bytearray) -> bytearray:
        """Return the bytes set for `key`, else `default_value`."""
        if key not in self._entries:
            return bytearray(default_value)
        try:
            return bytearray(base64.b64decode(self._entries[key], validate=True))
        except binascii.Error:
            raise ConfigurationError(f"the value of {key!r} is not base64-encoded bytes") from None

    def set_bytearray(self, key: str, value: bytes | bytearray) -> Configuration:
        """Set `key` to bytes, stored as base64 text."""
        return self.set_string(key, to_text(value))

    def key_set(self) -> _Keys:
        """Return all keys that are set."""
        return set(self._entries)

    def add_all_to_dict(self, target_dict: dict[str, str]) -> None:
        """Write all settings into `target_dict` as text, where PyFlink's configuration keeps the types of values."""
        target_dict.update(self._entries)

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Copy all settings of `other`, with `prefix` prepended to its keys if given."""
        for key, value in other._entries.items():
            self._entries[f"{prefix or ''}{key}"] = value
        return self

    def contains_key(self, key: str) -> bool:
        """Return whether exactly this key is set."""
        return key in self._entries

    def to_dict(self) -> dict[str, str]:
        """Return all settings as text."""
        return dict(self._entries)

    def remove_config(self, key: str) -> bool:
        """Remove a setting and return whether it was set."""
        return self._entries.pop(key, None) is not None

    def __copy__(self) -> Configuration:
        return Configuration(self)

    def __eq__(self, other: object) -> bool:
        return self._entries == other._entries if isinstance(other, Configuration) else NotImplemented

    def __hash__(self) -> int:
        # By content although it is mutable, as in PyFlink: do not change a configuration used as a dict key.
        return hash(frozenset(self._entries.items()))

    def __str__(self) -> str:
        return f"{{{', '.join(f'{key}={value}' for key, value in self._redacted().items())}}}"

    def __repr__(self) -> str:
        return f"Configuration({self._redacted()!r})"

    def _redacted(self) -> dict[str, str]:
        """Return the settings, with stars for secrets."""
        return {key: _HIDDEN if is_sensitive(key) else value for key, value in self._entries.items()}


def is_sensitive(key: str) -> bool:
    """Return whether the value of this key is a secret. Source: Flink, GlobalConfiguration.isSensitive."""
    lowered = key.lower()
    return any(part in lowered for part in _SENSITIVE)


def _wrong_value(key: str, value_type: ValueType[Any], error: Exception) -> ConfigurationError:
    return ConfigurationError(f"the value of {key!r} must be {value_type.name}: {error}")
