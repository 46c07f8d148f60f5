"""Builders of connectors, which keyword arguments have replaced. Programs that use them run, and get a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

C = TypeVar("C")

# Methods that took any number of names. The constructors take a list.
_NAMES = {"columns", "fields", "key_columns", "partition_columns", "streams", "tables"}

# Methods whose arguments have other names in the constructor, or are several there.
RENAMED: dict[str, Callable[..., dict[str, Any]]] = {
    "backoff_ms": lambda first_ms, most_ms: {"backoff_ms": first_ms, "backoff_max_ms": most_ms},
    "bounded": lambda: {"bounded": True},
    "cache": lambda max_rows, expire_after_write_ms: {
        "cache_max_rows": max_rows,
        "cache_expire_after_write_ms": expire_after_write_ms,
    },
    "catalog": lambda name, **properties: {"catalog": name, "catalog_properties": properties},
    "deserializer": lambda deserializer, type_info=None: {"deserializer": deserializer, "type_info": type_info},
    "hash": lambda key_selector, *fields: {"hash_key": key_selector, "fields": list(fields)},
    "stream": lambda stream, *fields, max_length=None: {
        "stream": stream,
        "fields": list(fields),
        "max_length": max_length,
    },
    "value_deserializer": lambda field, schema: {"value_field": field, "value_deserializer": schema},
    "values": lambda: {"values": True},
}


class FormerBuilder(Generic[C]):
    """Collect the keyword arguments of a connector, method by method. `build()` creates the connector."""

    def __init__(self, connector: Callable[..., C]) -> None:
        self._connector = connector
        self._arguments: dict[str, Any] = {}

    def set_header(self, name: str, value: str) -> Self:
        """Add a header to each request."""
        self._arguments.setdefault("headers", {})[name] = value
        return self

    def __getattr__(self, method: str) -> Callable[..., FormerBuilder[C]]:
        name = method.removeprefix("set_")
        if name == method:
            raise AttributeError(f"the builder of {self._connector.__name__} has no {method!r}")

        def set_argument(*values: Any, **named: Any) -> FormerBuilder[C]:
            if name in RENAMED:
                self._arguments |= RENAMED[name](*values, **named)
            elif name in _NAMES:
                self._arguments[name] = list(values)
            else:
                (self._arguments[name],) = (*values, *named.values())
            return self

        return set_argument

    def build(self) -> C:
        """Create the connector. Raise the errors of its constructor."""
        return self._connector(**self._arguments)


class HasFormerBuilder:
    """Provide the former method `builder()` of connectors with keyword arguments."""

    @classmethod
    def builder(cls) -> FormerBuilder[Self]:
        """Return a builder whose `set_url(...)` gives the argument `url`. Deprecated: call the class."""
        warnings.warn(
            f"{cls.__name__}.builder() is deprecated: call {cls.__name__}(url=..., ...), with the names of the "
            "builder's methods without set_",
            DeprecationWarning,
            stacklevel=2,
        )
        return FormerBuilder(cls)
