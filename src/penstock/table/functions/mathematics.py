"""Functions of numbers: absolute value, powers, logarithms, trigonometry, chance, texts of numbers in other bases."""

from __future__ import annotations

import math
import random
import uuid as uuids
from collections.abc import Callable, Iterator
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.functions.cast_numbers import to_float
from penstock.table.functions.columns import Column, as_array, is_constant, per_distinct, rows_of
from penstock.table.functions.registry import Call, Family
from penstock.table.logical_types import BYTES, CHARACTER_STRING, DOUBLE, INT, STRING, LogicalType

FAMILY = Family()
_ONE = ["<NUMERIC>"]


@FAMILY.kernel("ABS", signatures=_ONE, result=lambda one: one.types[0])
def absolute(call: Call) -> Column:
    """Return the absolute value; that of the smallest integer is itself."""
    return pc.abs(call.columns[0]).cast(call.arrow_type)


@FAMILY.kernel("SIGN", signatures=_ONE, result=lambda one: one.types[0])
def sign(call: Call) -> Column:
    """Return -1, 0 or 1, as a number of the same type."""
    if call.types[0].root == "DECIMAL":
        return per_distinct(lambda value: Decimal((value > 0) - (value < 0)).quantize(
            Decimal(1).scaleb(-call.result.scale)), call.columns, call.arrow_type)  # fmt: skip
    return pc.sign(call.columns[0]).cast(call.arrow_type)


def _guarded(function: Callable[..., float]) -> Callable[..., float]:
    """Return what Java returns where Python raises: NaN outside of the domain, infinity for what is too large."""

    def guarded(*values: float) -> float:
        try:
            return function(*values)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf
        except ZeroDivisionError:
            return math.inf

    return guarded


def _logarithm(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf if value == 0 else math.nan


def _log(first: float, second: float | None = None) -> float:
    if second is None:
        return _logarithm(first)
    divisor = _logarithm(first)
    return _logarithm(second) / divisor if divisor else math.copysign(math.inf, _logarithm(second))


_DOUBLES: dict[str, Callable[..., float]] = {
    "EXP": math.exp, "LN": _logarithm, "LOG2": lambda x: _logarithm(x) / math.log(2),
    "LOG10": lambda x: math.log10(x) if x > 0 else _logarithm(x), "SQRT": math.sqrt,
    "SIN": math.sin, "COS": math.cos, "TAN": math.tan, "COT": lambda x: 1 / math.tan(x),
    "ASIN": math.asin, "ACOS": math.acos, "ATAN": math.atan,
    "SINH": math.sinh, "COSH": math.cosh, "TANH": math.tanh, "DEGREES": math.degrees, "RADIANS": math.radians,
}  # fmt: skip
_PAIRS: dict[str, Callable[..., float]] = {"POWER": math.pow, "ATAN2": math.atan2}


def _register(name: str, function: Callable[..., float], signatures: list[str]) -> None:
    @FAMILY.kernel(name, signatures=signatures, result=DOUBLE)
    def _(call: Call) -> Column:
        doubles = [to_float(column, kind) for column, kind in zip(call.columns, call.types, strict=True)]
        return per_distinct(_guarded(function), doubles, pa.float64())


for _name, _function in _DOUBLES.items():
    _register(_name, _function, _ONE)
for _name, _function in _PAIRS.items():
    _register(_name, _function, ["<NUMERIC>, <NUMERIC>"])
_register("LOG", _log, ["<NUMERIC>", "<NUMERIC>, <NUMERIC>"])


@FAMILY.kernel("PI", signatures=[""], result=DOUBLE, nullable=False)
def pi(call: Call) -> Column:
    """Return the ratio of a circle's circumference to its diameter."""
    return pa.scalar(math.pi)


@FAMILY.kernel("E", signatures=[""], result=DOUBLE, nullable=False)
def e(call: Call) -> Column:
    """Return the base of natural logarithms."""
    return pa.scalar(math.e)


@FAMILY.kernel("UUID", signatures=[""], result=LogicalType("CHAR", length=36), nullable=False)
def uuid(call: Call) -> Column:
    """Return a random UUID for each row."""
    return pa.array([str(uuids.uuid4()) for _ in range(call.context.rows)])


class JavaRandom:
    """The generator of `java.util.Random`: the same numbers for the same seed."""

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ 0x5DEECE66D) & ((1 << 48) - 1)

    def _next(self, bits: int) -> int:
        self._state = (self._state * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        value = self._state >> (48 - bits)
        return value - (1 << bits) if value >> (bits - 1) else value

    def double(self) -> float:
        """Return a number from 0 to below 1."""
        return (((self._next(26) & 0x3FFFFFF) << 27) + (self._next(27) & 0x7FFFFFF)) / (1 << 53)

    def integer(self, bound: int) -> int:
        """Return an integer from 0 to below the bound."""
        if bound & -bound == bound:
            return (bound * (self._next(31) & 0x7FFFFFFF)) >> 31
        while True:
            bits = self._next(31) & 0x7FFFFFFF
            value = bits % bound
            if bits - value + (bound - 1) < 1 << 31:
                return value


def _generators(seed: Column | None, rows: int) -> Iterator[JavaRandom]:
    """Yield the generator for each row: one for a literal seed or none, a new one for each value of a column."""
    constant = seed is None or is_constant(seed)
    seeds = [random.getrandbits(48)] * rows if seed is None else as_array(seed, rows).to_pylist()
    shared = JavaRandom(seeds[0] or 0)
    for seed in seeds:
        yield shared if constant else JavaRandom(seed or 0)


@FAMILY.kernel("RAND", signatures=["", "<INTEGER>"], result=DOUBLE)
def rand(call: Call) -> Column:
    """Return a random number from 0 to below 1, with a seed if one is given."""
    seed = call.columns[0] if call.columns else None
    return pa.array([one.double() for one in _generators(seed, rows_of(call.columns) or call.context.rows)])


@FAMILY.kernel("RAND_INTEGER", signatures=["<INTEGER>", "<INTEGER>, <INTEGER>"], result=INT)
def rand_integer(call: Call) -> Column:
    """Return a random integer from 0 to below a bound: RAND_INTEGER([seed,] bound)."""
    rows = rows_of(call.columns) or call.context.rows
    seed = call.columns[0] if len(call.columns) == 2 else None
    bounds = as_array(call.columns[-1], rows).to_pylist()
    generators = _generators(seed, rows)
    values = [None if bound is None else one.integer(bound) for bound, one in zip(bounds, generators, strict=True)]
    return pa.array(values, pa.int32())


@FAMILY.values("BIN", "<INTEGER>", result=STRING)
def binary_text(value: int) -> str:
    """Return the binary digits of an integer, of 64 bits if it is negative."""
    return format(value & ((1 << 64) - 1), "b")


@FAMILY.kernel("HEX", signatures=["<INTEGER>", "<CHARACTER_STRING>"], result=STRING)
def hex_text(call: Call) -> Column:
    """Return the hexadecimal digits of an integer, or of the bytes of text."""
    if call.types[0].root in CHARACTER_STRING:
        return per_distinct(lambda text: text.encode().hex().upper(), call.columns, pa.string())
    return per_distinct(lambda value: format(value & ((1 << 64) - 1), "X"), call.columns, pa.string())


@FAMILY.values("UNHEX", "expr <CHARACTER_STRING>", result=BYTES, nullable=True)
def unhex(text: str) -> bytes | None:
    """Return the bytes of hexadecimal digits, NULL for other text. Flink takes a digit without a pair for 0."""
    if not all(character in "0123456789abcdefABCDEF" for character in text):
        return None
    return b"\0" + bytes.fromhex(text[1:]) if len(text) % 2 else bytes.fromhex(text)
