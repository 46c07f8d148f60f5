"""Methods of expressions whose values are numbers, or are compared."""

from __future__ import annotations

from typing import Any, Self

from penstock.table.composing.making import Making


class NumberMethods(Making):
    """Methods of expressions whose values are numbers, or are compared."""

    @property
    def abs(self) -> Self:
        """Return the absolute value."""
        return self._made("ABS({})")

    @property
    def exp(self) -> Self:
        """Return e to this power."""
        return self._made("EXP({})")

    @property
    def log10(self) -> Self:
        """Return the logarithm to base 10."""
        return self._made("LOG10({})")

    @property
    def log2(self) -> Self:
        """Return the logarithm to base 2."""
        return self._made("LOG2({})")

    @property
    def ln(self) -> Self:
        """Return the natural logarithm."""
        return self._made("LN({})")

    @property
    def sqrt(self) -> Self:
        """Return the square root."""
        return self._made("SQRT({})")

    @property
    def sign(self) -> Self:
        """Return -1, 0 or 1."""
        return self._made("SIGN({})")

    @property
    def sin(self) -> Self:
        """Return the sine of radians."""
        return self._made("SIN({})")

    @property
    def cos(self) -> Self:
        """Return the cosine of radians."""
        return self._made("COS({})")

    @property
    def tan(self) -> Self:
        """Return the tangent of radians."""
        return self._made("TAN({})")

    @property
    def cot(self) -> Self:
        """Return the cotangent of radians."""
        return self._made("COT({})")

    @property
    def sinh(self) -> Self:
        """Return the hyperbolic sine."""
        return self._made("SINH({})")

    @property
    def cosh(self) -> Self:
        """Return the hyperbolic cosine."""
        return self._made("COSH({})")

    @property
    def tanh(self) -> Self:
        """Return the hyperbolic tangent."""
        return self._made("TANH({})")

    @property
    def asin(self) -> Self:
        """Return the arc sine."""
        return self._made("ASIN({})")

    @property
    def acos(self) -> Self:
        """Return the arc cosine."""
        return self._made("ACOS({})")

    @property
    def atan(self) -> Self:
        """Return the arc tangent."""
        return self._made("ATAN({})")

    @property
    def degrees(self) -> Self:
        """Return the degrees of radians."""
        return self._made("DEGREES({})")

    @property
    def radians(self) -> Self:
        """Return the radians of degrees."""
        return self._made("RADIANS({})")

    @property
    def bin(self) -> Self:
        """Return the binary digits of an integer."""
        return self._made("BIN({})")

    def round(self, places: Any) -> Self:
        """Round to so many digits behind the point."""
        return self._called("ROUND", places)

    def truncate(self, n: Any = 0) -> Self:
        """Cut all but so many digits behind the point."""
        return self._called("TRUNCATE", n)

    def between(self, lower_bound: Any, upper_bound: Any) -> Self:
        """Return whether it lies between the bounds, or is one of them."""
        return self._made("({} BETWEEN {} AND {})", lower_bound, upper_bound)

    def not_between(self, lower_bound: Any, upper_bound: Any) -> Self:
        """Return whether it lies outside the bounds."""
        return self._made("({} NOT BETWEEN {} AND {})", lower_bound, upper_bound)

    def then(self, if_true: Any, if_false: Any) -> Self:
        """Return the first value if this is true, otherwise the second one."""
        return self._made("CASE WHEN {} THEN {} ELSE {} END", if_true, if_false)

    def if_null(self, null_replacement: Any) -> Self:
        """Return the replacement for NULL."""
        return self._called("IFNULL", null_replacement)

    @property
    def is_null(self) -> Self:
        """Return whether it is NULL."""
        return self._made("({} IS NULL)")

    @property
    def is_not_null(self) -> Self:
        """Return whether it is not NULL."""
        return self._made("({} IS NOT NULL)")

    @property
    def is_true(self) -> Self:
        """Return whether it is true, and not NULL."""
        return self._made("({} IS TRUE)")

    @property
    def is_false(self) -> Self:
        """Return whether it is false, and not NULL."""
        return self._made("({} IS FALSE)")

    @property
    def is_not_true(self) -> Self:
        """Return whether it is false or NULL."""
        return self._made("({} IS NOT TRUE)")

    @property
    def is_not_false(self) -> Self:
        """Return whether it is true or NULL."""
        return self._made("({} IS NOT FALSE)")

    def log(self, base: Any = None) -> Self:
        """Return the logarithm to a base; None: the natural one."""
        return self._called("LN") if base is None else self._made("LOG({1}, {0})", base)
