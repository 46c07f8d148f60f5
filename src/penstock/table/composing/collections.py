"""Methods of expressions whose values are arrays, maps or rows."""

from __future__ import annotations

from typing import Any, Self

from penstock.table.composing.making import Making


class CollectionMethods(Making):
    """Methods of expressions whose values are arrays, maps or rows."""

    @property
    def cardinality(self) -> Self:
        """Return the number of elements."""
        return self._made("CARDINALITY({})")

    @property
    def element(self) -> Self:
        """Return the only element of an array."""
        return self._made("ELEMENT({})")

    def at(self, index: Any) -> Self:
        """Return an element of an array, the first is 1, or the value of a key of a map."""
        return self._made("{}[{}]", index)

    def array_append(self, addition: Any) -> Self:
        """Add an element at the end."""
        return self._called("ARRAY_APPEND", addition)

    def array_contains(self, needle: Any) -> Self:
        """Return whether the array has an element."""
        return self._called("ARRAY_CONTAINS", needle)

    def array_distinct(self) -> Self:
        """Return each element once."""
        return self._called("ARRAY_DISTINCT")

    def array_position(self, needle: Any) -> Self:
        """Return the place of an element, from 1; 0: it is not there."""
        return self._called("ARRAY_POSITION", needle)

    def array_prepend(self, addition: Any) -> Self:
        """Add an element at the start."""
        return self._called("ARRAY_PREPEND", addition)

    def array_remove(self, needle: Any) -> Self:
        """Remove an element wherever it is."""
        return self._called("ARRAY_REMOVE", needle)

    def array_reverse(self) -> Self:
        """Return the elements in reverse."""
        return self._called("ARRAY_REVERSE")

    def array_slice(self, start_offset: Any, end_offset: Any = None) -> Self:
        """Return the elements from one place to another, both included."""
        return self._called("ARRAY_SLICE", start_offset, end_offset)

    def array_sort(self, ascending_order: Any = None, null_first: Any = None) -> Self:
        """Return the elements in order."""
        return self._called("ARRAY_SORT", ascending_order, null_first)

    def array_union(self, array: Any) -> Self:
        """Return the elements of both arrays, each once."""
        return self._called("ARRAY_UNION", array)

    def array_concat(self, *args: Any) -> Self:
        """Return the elements of this array and others."""
        return self._called("ARRAY_CONCAT", *args)

    def array_max(self) -> Self:
        """Return the largest element."""
        return self._called("ARRAY_MAX")

    def array_min(self) -> Self:
        """Return the smallest element."""
        return self._called("ARRAY_MIN")

    def array_join(self, delimiter: Any, null_replacement: Any = None) -> Self:
        """Return the text of all elements."""
        return self._called("ARRAY_JOIN", delimiter, null_replacement)

    def array_except(self, array: Any) -> Self:
        """Return the elements that another array lacks."""
        return self._called("ARRAY_EXCEPT", array)

    def array_intersect(self, array: Any) -> Self:
        """Return the elements that another array has, too."""
        return self._called("ARRAY_INTERSECT", array)

    @property
    def map_keys(self) -> Self:
        """Return the keys of a map."""
        return self._made("MAP_KEYS({})")

    @property
    def map_values(self) -> Self:
        """Return the values of a map."""
        return self._made("MAP_VALUES({})")

    @property
    def map_entries(self) -> Self:
        """Return the entries of a map as rows."""
        return self._made("MAP_ENTRIES({})")

    def map_union(self, *args: Any) -> Self:
        """Return a map with the entries of this one and others."""
        return self._called("MAP_UNION", *args)
