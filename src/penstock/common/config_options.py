"""Configuration options: a key, the type of its value and a default. Source: PyFlink's `ConfigOptions`."""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from penstock.common.config_values import (
    BooleanType,
    DurationType,
    EnumType,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    MemorySizeType,
    TextType,
    ValueType,
)

T = TypeVar("T")
E = TypeVar("E", bound=enum.Enum)


@dataclass(frozen=True, slots=True)
class ConfigOption(Generic[T]):
    """A configuration key, with the type of its value and its default."""

    key: str
    value_type: ValueType[T]
    default: T
    description: str = ""
    fallback_keys: tuple[str, ...] = ()
    """Further keys to look up, in this order, if the option's own key is not set."""

    def with_description(self, description: str) -> ConfigOption[T]:
        """Return a copy of the option with a description."""
        return dataclasses.replace(self, description=description)

    def with_fallback_keys(self, *keys: str) -> ConfigOption[T]:
        """Return a copy of the option that is also looked up under these keys (older spellings)."""
        return dataclasses.replace(self, fallback_keys=keys)


@overload
def option(
    key: str, value_type: ValueType[T], default: None, *, fallback_keys: tuple[str, ...] = ()
) -> ConfigOption[T | None]: ...


@overload
def option(
    key: str, value_type: ValueType[T], default: T, *, fallback_keys: tuple[str, ...] = ()
) -> ConfigOption[T]: ...


def option(
    key: str, value_type: ValueType[Any], default: Any, *, fallback_keys: tuple[str, ...] = ()
) -> ConfigOption[Any]:
    """Declare an option of penstock.

    The docstring below the constant describes it; the reference page is built from it.
    """
    return ConfigOption(key, value_type, default, fallback_keys=fallback_keys)


class ConfigOptions:
    """Builds options: `ConfigOptions.key("job.depth").int_type().default_value(3)`."""

    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        """Start with the key. Raises ValueError if it is empty."""
        if not key:
            raise ValueError("the key of an option must not be empty")
        return ConfigOptions.OptionBuilder(key)

    class OptionBuilder:
        """An option with a key, to which a type is added next."""

        def __init__(self, key: str) -> None:
            self._key = key

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder[bool]:
            """Let the value be true or false."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, BooleanType())

        def int_type(self, least: int | None = None) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Let the value be a 32-bit integer of `least` or more."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, IntegerType(least=least))

        def long_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Let the value be a 64-bit integer."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, IntegerType(64))

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """Let the value be a float. It is the same as `double_type`, as Python has only one float type."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, FloatType())

        def double_type(
            self, least: float | None = None, most: float | None = None
        ) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """Let the value be a float from `least` to `most`."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, FloatType(least, most))

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            """Let the value be any text."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, TextType())

        def duration_type(self, least_ms: int = 0) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Let the value be a duration of `least_ms` or more, written `5 s`.

            It is read as an int of milliseconds.
            """
            return ConfigOptions.TypedConfigOptionBuilder(self._key, DurationType(least_ms))

        def memory_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Let the value be a size, written `64 mb`. It is read as an int of bytes."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, MemorySizeType())

        def list_type(self) -> ConfigOptions.TypedConfigOptionBuilder[list[str]]:
            """Let the value be a list of texts, written `a;b`."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, ListType())

        def map_type(self) -> ConfigOptions.TypedConfigOptionBuilder[dict[str, str]]:
            """Let the value be a map from names to texts, written `a:1,b:2`."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, MapType())

        def enum_type(self, enum_class: type[E]) -> ConfigOptions.TypedConfigOptionBuilder[E]:
            """Let the value be a member of an enum, given by name."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, EnumType(enum_class))

    class TypedConfigOptionBuilder(Generic[T]):
        """An option with a key and a type, to which a default is added next."""

        def __init__(self, key: str, value_type: ValueType[T]) -> None:
            self._key = key
            self._value_type = value_type

        def default_value(self, value: T) -> ConfigOption[T]:
            """Return the option with this default."""
            return ConfigOption(self._key, self._value_type, value)

        def no_default_value(self) -> ConfigOption[T | None]:
            """Return the option with the default None."""
            return ConfigOption(self._key, self._value_type, None)
