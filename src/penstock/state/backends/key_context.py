"""The current key: what states need of the backend that they belong to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class KeyContext(Protocol):
    """The current key and namespace, and processing time in milliseconds."""

    key: Any
    namespace: Any
    now_ms: Callable[[], int]
