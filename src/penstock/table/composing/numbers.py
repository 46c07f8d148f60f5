"""Methods of expressions whose values are numbers, or are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.table.composing.making import Making

if TYPE_CHECKING:
    from penstock.table.expression import Expression


class NumberMethods(Making):
    """Methods of expressions whose values are numbers, or are compared."""

    @property
    def abs(self) -> Expression:
        """Return the absolute value."""
        return self._made("ABS({})")

    @property
    def exp(self) -> Expression:
        """Return e to this power."""
        return self._made("EXP({})")

    @property
    def log10(self) -> Expression:
        """Return the logarithm to base 10."""
        return self._made("LOG10({})")

    @property
    def log2(self) -> Expression:
        """Return the logarithm to base 2."""
        return self._made("LOG2({})")

    @property
    def ln(self) -> Expression:
        """Return the natural logarithm."""
        return self._made("LN({})")

    @property
    def sqrt(self) -> Expression:
        """Return the square root."""
        return self._made("SQRT({})")

    @property
    def sign(self) -> Expression:
        """Return -1, 0 or 1."""
        return self._made("SIGN({})")

    @property
    def sin(self) -> Expression:
        """Return the sine of radians."""
        return self._made("SIN({})")

    @property
    def cos(self) -> Expression:
        """Return the cosine of radians."""
        return self._made("COS({})")

    @property
    def tan(self) -> Expression:
        """Return the tangent of radians."""
        return self._made("TAN({})")

    @property
    def cot(self) -> Expression:
        """Return the cotangent of radians."""
        return self._made("COT({})")

    @property
    def sinh(self) -> Expression:
        """Return the hyperbolic sine."""
        return self._made("SINH({})")

    @property
    def cosh(self) -> Expression:
        """Return the hyperbolic cosine."""
        return self._made("COSH({})")

    @property
    def tanh(self) -> Expression:
        """Return the hyperbolic tangent."""
        return self._made("TANH({})")

    @property
    def asin(self) -> Expression:
        """Return the arc sine."""
        return self._made("ASIN({})")

    @property
    def acos(self) -> Expression:
        """Return the arc cosine."""
        return self._made("ACOS({})")

    @property
    def atan(self) -> Expression:
        """Return the arc tangent."""
        return self._made("ATAN({})")

    @property
    def degrees(self) -> Expression:
        """Return the degrees of radians."""
        return self._made("DEGREES({})")

    @property
    def radians(self) -> Expression:
        """Return the radians of degrees."""
        return self._made("RADIANS({})")

    @property
    def bin(self) -> Expression:
        """Return the binary digits of an integer."""
        return self._made("BIN({})")

    def round(self, places: Any) -> Expression:
        """Round to so many digits behind the point."""
        return self._called("ROUND", places)

    def truncate(self, n: Any = 0) -> Expression:
        """Cut all but so many digits behind the point."""
        return self._called("TRUNCATE", n)

    def between(self, lower_bound: Any, upper_bound: Any) -> Expression:
        """Return whether it lies between the bounds, or is one of them."""
        return self._made("({} BETWEEN {} AND {})", lower_bound, upper_bound)

    def not_between(self, lower_bound: Any, upper_bound: Any) -> Expression:
        """Return whether it lies outside the bounds."""
        return self._made("({} NOT BETWEEN {} AND {})", lower_bound, upper_bound)

    def then(self, if_true: Any, if_false: Any) -> Expression:
        """Return the first value if this is true, otherwise the second one."""
        return self._made("CASE WHEN {} THEN {} ELSE {} END", if_true, if_false)

    def if_null(self, null_replacement: Any) -> Expression:
        """Return the replacement for NULL."""
        return self._called("IFNULL", null_replacement)

    @property
    def is_null(self) -> Expression:
        """Return whether it is NULL."""
        return self._made("({} IS NULL)")

    @property
    def is_not_null(self) -> Expression:
        """Return whether it is not NULL."""
        return self._made("({} IS NOT NULL)")

    @property
    def is_true(self) -> Expression:
        """Return whether it is true, and not NULL."""
        return self._made("({} IS TRUE)")

    @property
    def is_false(self) -> Expression:
        """Return whether it is false, and not NULL."""
        return self._made("({} IS FALSE)")

    @property
    def is_not_true(self) -> Expression:
        """Return whether it is false or NULL."""
        return self._made("({} IS NOT TRUE)")

    @property
    def is_not_false(self) -> Expression:
        """Return whether it is true or NULL."""
        return self._made("({} IS NOT FALSE)")

    def log(self, base: Any = None) -> Expression:
        """Return the logarithm to a base; None: the natural one."""
        return self._called("LN") if base is None else self._made("LOG({1}, {0})", base)
