"""Ports as Flink writes them: `8081`, `50100,50101`, `50100-50200`; 0 is any free one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from penstock.common.configuration import rest_options
from penstock.common.errors import ConfigurationError

_PART = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")
_HIGHEST = 65_535


def ports_in(text: str) -> Iterator[int]:
    """Return the ports in the order in which to try them. Raises ConfigurationError."""
    ranges = []
    for part in text.split(","):
        found = _PART.fullmatch(part.strip())
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not first <= last <= _HIGHEST:
            raise ConfigurationError(
                f"{rest_options.REST_BIND_PORT.key} must be a port, a range or a list of both, such as 8081-8099,0, "
                f"got {text!r}"
            )
        ranges.append(range(first, last + 1))
    return (port for each in ranges for port in each)


def preferring(port: int | None, ports: str) -> str:
    """Return the ports, with `port`, which clients use already, first if it is among them; None: no preference.

    Raises ConfigurationError.
    """
    return f"{port},{ports}" if port is not None and {port, 0} & set(ports_in(ports)) else ports
