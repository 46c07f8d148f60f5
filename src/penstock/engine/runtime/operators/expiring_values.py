"""The value of each key in a table, which expires if there is a time to live: for operators that are not functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.api.state.descriptors import ValueStateDescriptor
from penstock.api.state.ttl import StateTtlConfig
from penstock.common.typeinfo import Types
from penstock.engine.state.backends.ttl_states import TtlValueState

if TYPE_CHECKING:
    from penstock.engine.state.backends.backend import KeyedStateBackend


class ExpiringValues:
    """The values of a table of rows. With `ttl`, entries are pairs of the time of the last use (ms) and the value.

    `use` is called after a restore, before values are read.
    """

    def __init__(self, backend: KeyedStateBackend, name: str, table: Any, ttl: StateTtlConfig | None) -> None:
        self._backend = backend
        self._name = name
        self._table = table
        self._ttl = ttl
        self._state: TtlValueState | None = None

    def use(self) -> None:
        """Let keys expire, if they do."""
        if self._ttl is None:
            return
        descriptor = ValueStateDescriptor("values", Types.PICKLED_BYTE_ARRAY())
        descriptor.enable_time_to_live(self._ttl)
        self._state = TtlValueState(self._backend, self._table, descriptor, namespaced=False)
        self._backend.expire(self._name, self._state.visible_value, self._state.expiry)

    def get(self, key: Any) -> Any:
        """Return the value of a key; None without a value, or if that has expired."""
        if self._state is None:
            return self._table.get(key)
        self._backend.key = key
        return self._state.value()

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key, whose time to live begins again."""
        if self._state is None:
            self._table.put(key, value)
            return
        self._backend.key = key
        self._state.update(value)

    def write(self, entries: Mapping[Any, Any]) -> None:
        """Store entries as they are, those of arrays in front of the table. None removes an entry."""
        self._table.current.update(entries)
        expiry = None if self._state is None else self._state.expiry
        if expiry is not None:
            for key, entry in entries.items():
                if entry is not None:
                    expiry.touch(key, entry[0] + expiry.ttl_ms)
