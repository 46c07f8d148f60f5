"""Keyed state on the heap: Python objects in one dict for each state and subtask."""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.state.backends.backend import KeyedStateBackend, T
from penstock.engine.state.collection_tables import ListTable, MapTable
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.sliced import SlicedTable, Slices


class HashMapKeyedStateBackend(KeyedStateBackend):
    """`state.backend.type: hashmap`, the default. State must fit into memory."""

    __slots__ = ()

    def make_layered(self, name: str, namespaced: bool = False) -> LayeredTable:
        return LayeredTable(namespaced)

    def make_maps(self, name: str, namespaced: bool = False) -> MapTable:
        return MapTable(namespaced)

    def make_lists(self, name: str, namespaced: bool = False) -> ListTable:
        return ListTable(namespaced)

    def slices(self, name: str, lists: bool = False) -> Slices:
        return self.table(name, lambda: SlicedTable(ListTable if lists else LayeredTable))

    def arrays(self, name: str, make: Callable[[], T]) -> T:
        return self.table(name, make)
