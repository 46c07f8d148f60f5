"""The configuration of a program: keys and values as text."""

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

_Keys: TypeAlias = set[str]  # inside the class `set` is a method

_INTEGER: Final = IntegerType(64)
_BOOLEAN: Final = BooleanType()
_FLOAT: Final = FloatType()


class Configuration:
    """Settings by key, all held as text.

    Setters return the configuration itself. Getters raise ConfigurationError where what is set is not of the type asked
    for.
    """

    __slots__ = ("_entries",)

    def __init__(self, other: Configuration | None = None) -> None:
        self._entries: dict[str, str] = {} if other is None else dict(other._entries)

    @classmethod
    def from_dict(cls, map: Mapping[str, Any]) -> Configuration:
        """A configuration with these settings; values that are no text are written as `set` writes them."""
        configuration = cls()
        for key, value in map.items():
            configuration.set_string(key, to_text(value))
        return configuration

    def get(self, option: ConfigOption[T]) -> T:
        """The value of an option: as set, else under one of its fallback keys, else its default."""
        key = self._key_of(option)
        return option.default if key is None else self._parse(key, option.value_type)

    def set(self, option: ConfigOption[T], value: Any) -> Configuration:
        """Set an option. Text is taken as it would stand in a file; None removes the setting.

        Durations may be given as Duration, Time, timedelta or an int of milliseconds. Raises ConfigurationError if the
        value is not of the option's type.
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
        """Whether the option is set, under its own key or a fallback key."""
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
        """The text set for `key`, else `default_value`."""
        return self._entries.get(key, default_value)

    def set_string(self, key: str, value: str) -> Configuration:
        """Set `key`. Raises TypeError if key or value is no str."""
        if not all(isinstance(text, str) for text in (key, value)):
            raise TypeError(f"a key and its value are str here, got {key!r} and {value!r}")
        self._entries[key] = value
        return self

    @staticmethod
    def parse_list_value(value: str) -> list[str]:
        """Elements of a list written `a;b` or as YAML does; [] for an empty text."""
        return parse_list(value) if value else []

    def get_integer(self, key: str, default_value: D) -> int | D:
        """The whole number set for `key`, else `default_value`."""
        return self._parse(key, _INTEGER) if key in self._entries else default_value

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set `key` to a whole number."""
        return self.set_string(key, to_text(int(value)))

    def get_boolean(self, key: str, default_value: D) -> bool | D:
        """Whether `true` is set for `key`, else `default_value`."""
        return self._parse(key, _BOOLEAN) if key in self._entries else default_value

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set `key` to true or false."""
        return self.set_string(key, to_text(bool(value)))

    def get_float(self, key: str, default_value: D) -> float | D:
        """The number set for `key`, else `default_value`."""
        return self._parse(key, _FLOAT) if key in self._entries else default_value

    def set_float(self, key: str, value: float) -> Configuration:
        """Set `key` to a number."""
        return self.set_string(key, to_text(float(value)))

    def get_bytearray(self, key: str, default_value: bytes | bytearray) -> bytearray:
        """The bytes set for `key`, else `default_value`."""
        if key not in self._entries:
            return bytearray(default_value)
        try:
            return bytearray(base64.b64decode(self._entries[key], validate=True))
        except binascii.Error:
            raise ConfigurationError(f"the value of {key!r} is not written as bytes (base64)") from None

    def set_bytearray(self, key: str, value: bytes | bytearray) -> Configuration:
        """Set `key` to these bytes; as text they are base64."""
        return self.set_string(key, to_text(value))

    def key_set(self) -> _Keys:
        """All keys that are set."""
        return set(self._entries)

    def add_all_to_dict(self, target_dict: dict[str, str]) -> None:
        """Write all settings into `target_dict`."""
        target_dict.update(self._entries)

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Take over all settings of `other`, its keys with `prefix` before them if given."""
        for key, value in other._entries.items():
            self._entries[f"{prefix or ''}{key}"] = value
        return self

    def contains_key(self, key: str) -> bool:
        """Whether exactly this key is set."""
        return key in self._entries

    def to_dict(self) -> dict[str, str]:
        """All settings as text."""
        return dict(self._entries)

    def remove_config(self, key: str) -> bool:
        """Remove a setting; whether there was one."""
        return self._entries.pop(key, None) is not None

    def __copy__(self) -> Configuration:
        return Configuration(self)

    def __eq__(self, other: object) -> bool:
        return self._entries == other._entries if isinstance(other, Configuration) else NotImplemented

    def __hash__(self) -> int:
        # By content though it can change, as PyFlink's: don't change one while it is a key.
        return hash(frozenset(self._entries.items()))

    def __str__(self) -> str:
        return str(self._entries)

    def __repr__(self) -> str:
        return f"Configuration({self._entries!r})"


def _wrong_value(key: str, value_type: ValueType[Any], error: Exception) -> ConfigurationError:
    return ConfigurationError(f"the value of {key!r} must be {value_type.name}: {error}")
