"""Aggregates of the values that an expression has in the rows of a group."""

from __future__ import annotations

from typing import Any, Self

from penstock.table.composing.making import Making


class AggregateMethods(Making):
    """Aggregates of the values that an expression has in the rows of a group."""

    @property
    def sum(self) -> Self:
        """Return the sum; NULL without values."""
        return self._made("SUM({distinct}{})")

    @property
    def min(self) -> Self:
        """Return the least value."""
        return self._made("MIN({distinct}{})")

    @property
    def max(self) -> Self:
        """Return the largest value."""
        return self._made("MAX({distinct}{})")

    @property
    def count(self) -> Self:
        """Return how many values are not NULL."""
        return self._made("COUNT({distinct}{})")

    @property
    def avg(self) -> Self:
        """Return the mean; of integers, an integer."""
        return self._made("AVG({distinct}{})")

    @property
    def first_value(self) -> Self:
        """Return the first value."""
        return self._made("FIRST_VALUE({distinct}{})")

    @property
    def last_value(self) -> Self:
        """Return the last value."""
        return self._made("LAST_VALUE({distinct}{})")

    @property
    def stddev_pop(self) -> Self:
        """Return the standard deviation of the population."""
        return self._made("STDDEV_POP({distinct}{})")

    @property
    def stddev_samp(self) -> Self:
        """Return the standard deviation of a sample."""
        return self._made("STDDEV_SAMP({distinct}{})")

    @property
    def var_pop(self) -> Self:
        """Return the variance of the population."""
        return self._made("VAR_POP({distinct}{})")

    @property
    def var_samp(self) -> Self:
        """Return the variance of a sample."""
        return self._made("VAR_SAMP({distinct}{})")

    @property
    def collect(self) -> Self:
        """Return the multiset of the values."""
        return self._made("COLLECT({distinct}{})")

    @property
    def array_agg(self) -> Self:
        """Return the array of the values."""
        return self._made("ARRAY_AGG({distinct}{})")

    @property
    def sum0(self) -> Self:
        """Return the sum; 0 without values."""
        return self._made("COALESCE(SUM({distinct}{}), 0)")

    def list_agg(self, separator: Any = None) -> Self:
        """Return the values as one text. Default separator: a comma."""
        return self._made("LISTAGG({distinct}{}, {})", "," if separator is None else separator)
