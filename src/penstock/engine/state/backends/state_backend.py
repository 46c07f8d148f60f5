"""What `state.backend.type` selects: the factory of the backends of keyed state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.engine.state.backends.backend import KeyedStateBackend
from penstock.engine.state.backends.versioned.store import StoreOwner
from penstock.engine.state.key_groups import KeyGroups


class StateBackend(Protocol):
    """Creates the keyed state of operators, a backend for each of their subtasks. Source: Flink, StateBackend."""

    def keyed_backend(self, now_ms: Callable[[], int], key_groups: KeyGroups, owner: StoreOwner) -> KeyedStateBackend:
        """Create the backend of a subtask. `now_ms`: processing time (ms since 1970)."""
