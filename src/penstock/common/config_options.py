"""Configuration options: a key, a type, a default."""

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
    """Further keys that are looked up, in this order, if the option's own key is not set."""

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
    """Declare an option of penstock. The docstring below the constant describes it: the reference reads it there."""
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
        """Has a key, needs a type."""

        def __init__(self, key: str) -> None:
            self._key = key

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder[bool]:
            """True or false."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, BooleanType())

        def int_type(self, least: int | None = None) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """An int of 32 bits, not below `least`."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, IntegerType(least=least))

        def long_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """An int of 64 bits."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, IntegerType(64))

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """A float. Python has one float type only."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, FloatType())

        def double_type(
            self, least: float | None = None, most: float | None = None
        ) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """A float, not below `least` and not above `most`."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, FloatType(least, most))

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            """Any text."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, TextType())

        def duration_type(self, least_ms: int = 0) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """A length of time, written `5 s`, not below `least_ms`; its value is an int of milliseconds."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, DurationType(least_ms))

        def memory_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """A size, written `64 mb`; its value is an int of bytes."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, MemorySizeType())

        def list_type(self) -> ConfigOptions.TypedConfigOptionBuilder[list[str]]:
            """Several texts, written `a;b`."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, ListType())

        def map_type(self) -> ConfigOptions.TypedConfigOptionBuilder[dict[str, str]]:
            """Names and texts, written `a:1,b:2`."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, MapType())

        def enum_type(self, enum_class: type[E]) -> ConfigOptions.TypedConfigOptionBuilder[E]:
            """A member of that enum, by its name."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, EnumType(enum_class))

    class TypedConfigOptionBuilder(Generic[T]):
        """Has a key and a type, needs a default."""

        def __init__(self, key: str, value_type: ValueType[T]) -> None:
            self._key = key
            self._value_type = value_type

        def default_value(self, value: T) -> ConfigOption[T]:
            """Set the default."""
            return ConfigOption(self._key, self._value_type, value)

        def no_default_value(self) -> ConfigOption[T | None]:
            """The default is None."""
            return ConfigOption(self._key, self._value_type, None)
