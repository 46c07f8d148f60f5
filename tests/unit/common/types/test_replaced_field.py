"""One field of a record is replaced, whatever the record is: all else stays, in the copy and in the original."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from operator import lt
from typing import Any, ClassVar, NamedTuple, TypedDict

import attrs
import msgspec
import pydantic
import pydantic.dataclasses
import pytest
from pyspark.sql import Row as SparkRow

from penstock.common import Row
from penstock.common.types import RowKind
from penstock.engine.runtime.operators.reduce import BestReduce, SumReduce

Make = Callable[[str, int], Any]


class Named(NamedTuple):
    shop: str
    amount: int


class NamedWithMore(Named):
    """A subclass of a NamedTuple, with attributes of its own."""


class Pair(tuple[Any, ...]):
    """A subclass of tuple whose constructor takes two arguments."""

    __slots__ = ()

    def __new__(cls, shop: str, amount: int) -> Pair:
        return super().__new__(cls, (shop, amount))

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)


class Amounts(list[Any]):
    """A subclass of list."""


class Document(dict[str, Any]):
    """A subclass of dict."""


class Typed(TypedDict):
    shop: str
    amount: int


@dataclasses.dataclass
class Data:
    shop: str
    amount: int


@dataclasses.dataclass(frozen=True)
class Frozen:
    shop: str
    amount: int


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlots:
    shop: str
    amount: int


@dataclasses.dataclass
class Counting:
    shop: str
    amount: int
    seen: int = dataclasses.field(default=0, init=False)


@dataclasses.dataclass(frozen=True)
class Computing:
    shop: str
    amount: int
    double: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "double", 2 * self.amount)


class Struct(msgspec.Struct):
    shop: str
    amount: int


class FrozenStruct(msgspec.Struct, frozen=True, gc=False):
    shop: str
    amount: int


class ArrayStruct(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    shop: str
    amount: int


@attrs.define
class Attrs:
    shop: str
    amount: int


@attrs.frozen
class FrozenAttrs:
    shop: str
    amount: int


@attrs.frozen(slots=False, cache_hash=True)
class HashedAttrs:
    shop: str
    amount: int


@attrs.define
class ComputingAttrs:
    shop: str
    amount: int
    _note: str = "none"
    double: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.double = 2 * self.amount


class Model(pydantic.BaseModel):
    shop: str
    amount: int


class FrozenModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    shop: str
    amount: int


@pydantic.dataclasses.dataclass(frozen=True)
class PydanticData:
    shop: str
    amount: int


class Plain:
    def __init__(self, shop: str, amount: int) -> None:
        self.shop, self.amount = shop, amount

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


class Slots:
    __slots__ = ("amount", "shop")

    def __init__(self, shop: str, amount: int) -> None:
        self.shop, self.amount = shop, amount

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slots) and (self.shop, self.amount) == (other.shop, other.amount)

    __hash__ = None  # type: ignore[assignment]


def as_dict(shop: str, amount: int) -> dict[str, Any]:
    return {"shop": shop, "amount": amount}


def changed_row(shop: str, amount: int) -> Row:
    return Row.of_kind(RowKind.UPDATE_AFTER, shop=shop, amount=amount)


BY_NAME: list[Make] = [
    Named, NamedWithMore, as_dict, lambda shop, amount: Document(as_dict(shop, amount)),
    lambda shop, amount: OrderedDict(as_dict(shop, amount)),
    lambda shop, amount: defaultdict(list, as_dict(shop, amount)), lambda shop, amount: Typed(shop=shop, amount=amount),
    lambda shop, amount: Row(shop=shop, amount=amount), changed_row,
    lambda shop, amount: SparkRow(shop=shop, amount=amount),
    Data, Frozen, FrozenSlots, Counting, Computing, Struct, FrozenStruct,
    lambda shop, amount: ArrayStruct(shop=shop, amount=amount), Attrs, FrozenAttrs, HashedAttrs, ComputingAttrs,
    lambda shop, amount: Model(shop=shop, amount=amount), lambda shop, amount: FrozenModel(shop=shop, amount=amount),
    PydanticData, Plain, Slots,
]  # fmt: skip
BY_POSITION: list[Make] = [
    lambda shop, amount: (shop, amount), Named, NamedWithMore, Pair, lambda shop, amount: [shop, amount],
    lambda shop, amount: Amounts([shop, amount]), Row, lambda shop, amount: Row(shop=shop, amount=amount),
    lambda shop, amount: SparkRow(shop=shop, amount=amount),
]  # fmt: skip
RECORDS = [(make, "amount") for make in BY_NAME] + [(make, 1) for make in BY_POSITION]


@pytest.mark.parametrize(("make", "field"), RECORDS)
def test_a_field_is_replaced_on_every_kind_of_record(make: Make, field: Any) -> None:
    """`sum("amount")` would work on tuples and fail, lose fields or change the type, on records that people have."""
    a, b = make("a", 3), make("b", 2)
    kept = copy.deepcopy(a), copy.deepcopy(b)
    total = SumReduce(field).reduce(a, b)
    least = BestReduce(field, lt, whole=False).reduce(a, b)
    assert (total, least) == (make("a", 5), make("a", 2))
    assert type(total) is type(least) is type(a)
    assert BestReduce(field, lt, whole=True).reduce(a, b) is b
    assert (a, b) == kept, "records are shared: they must not be changed in place"
    for aggregate in (SumReduce(field), BestReduce(field, lt, whole=False), BestReduce(field, lt, whole=True)):
        aggregate.check(a)
    assert a == kept[0]
    with contextlib.suppress(TypeError):  # Some have no hash.
        assert hash(total) == hash(make("a", 5))


def test_what_the_constructor_does_not_take_stays() -> None:
    """A field that functions have set would fall back to its default."""
    counting = Counting("a", 3)
    counting.seen = 7
    total = SumReduce("amount").reduce(counting, Counting("a", 1))
    assert (total.amount, total.seen, counting.amount) == (4, 7, 3)

    more = NamedWithMore("a", 3)
    more.note = "kept"  # type: ignore[attr-defined]
    total = SumReduce("amount").reduce(more, more)
    assert (total, total.note) == (("a", 6), "kept")

    typed = changed_row("a", 3)
    assert SumReduce("amount").reduce(typed, typed).get_row_kind() is RowKind.UPDATE_AFTER
    noted = ComputingAttrs("a", 3, "kept")
    assert SumReduce("amount").reduce(noted, noted) == ComputingAttrs("a", 6, "kept")


class Derived:
    def __init__(self, n: int) -> None:
        self.n = n

    @property
    def double(self) -> int:
        return 2 * self.n


@pytest.mark.parametrize(
    ("record", "field", "message"),
    [
        (Derived(1), "double", "field 'double' of the Derived can't be replaced"),
        (pydantic.RootModel[int](1), 0, "there is no field at position 0"),
        (Data("a", 1), 0, "there is no field at position 0: the Data has shop, amount"),
        (FrozenStruct("a", 1), 1, "there is no field at position 1: the FrozenStruct has shop, amount"),
        (FrozenAttrs("a", 1), "n", "there is no field 'n': the FrozenAttrs has shop, amount"),
        (Model(shop="a", amount=1), "n", "there is no field 'n': the Model has shop, amount"),
    ],
)
def test_what_can_not_be_replaced_is_refused_with_the_first_record(record: Any, field: Any, message: str) -> None:
    """The second record of a key would find it: in production, weeks later."""
    with pytest.raises(TypeError, match=message):
        SumReduce(field).check(record)


def test_a_field_that_is_not_replaced_may_be_computed() -> None:
    """`max_by` takes the whole record, so a property will do."""
    best = BestReduce("double", lt, whole=True)
    best.check(Derived(1))
    assert best.reduce(Derived(2), Derived(1)).n == 1


@dataclasses.dataclass
class FromCents:
    amount: float
    count: int

    def __post_init__(self) -> None:
        self.amount /= 100


@attrs.define
class AttrsFromCents:
    amount: float = attrs.field(converter=lambda cents: cents / 100)
    count: int = 0

    def __attrs_post_init__(self) -> None:
        self.count += 1


class StructFromCents(msgspec.Struct):
    amount: float
    count: int

    def __post_init__(self) -> None:
        self.amount /= 100


@pytest.mark.parametrize("kind", [FromCents, AttrsFromCents, StructFromCents])
def test_a_record_whose_constructor_changes_its_fields_is_refused(kind: Any) -> None:
    """With each record of a sum another field would be divided once more."""
    with pytest.raises(TypeError, match=r"'amount' changes from 1\.0 to 0\.01"):
        SumReduce("count").reduce(kind(100, 1), kind(100, 2))


@dataclasses.dataclass
class Checked:
    made: ClassVar[int] = 0
    amount: float
    count: int

    def __post_init__(self) -> None:
        Checked.made += 1


def test_a_constructor_that_only_checks_is_run_once() -> None:
    """A sum would pay for two records with each one."""
    one, other = Checked(1.5, 1), Checked(2.5, 2)
    before = Checked.made
    total = SumReduce("count").reduce(one, other)
    assert Checked.made - before == 1
    assert (total.amount, total.count) == (1.5, 3)
