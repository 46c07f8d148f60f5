"""What operations on bounded streams of declared rows mean as relational algebra, so that a DataFrame can compute them.

A method of the DataStream API that has such a meaning attaches it to the transformation that it adds. Each relation
tells for which types of rows DataFrames of Spark give exactly the records that the operators give. Where they would
not, the operators run: `reason_for_operators` says why, for `penstock explain`.

* Keys are whole numbers, texts, booleans, bytes and dates. Operators refuse NaN as a key, and Spark does not.
* Keys of both sides of a join have the same type: 1 and 1.0 are one key for operators.
* Operators add whole numbers without a limit, so a sum is exact, or the job fails: see `aggregates.py`.
* The order of a DataFrame's rows is not defined, so neither is what depends on it: which of several rows with one key
  stays, and how a sum of floats is rounded. Behind a sort it is, and what depends on it runs as operators. What is not
  defined `varies`: if several read it, operators do, from one copy, so that all see the same rows.

Functions that DataFrames call are in `function_relations.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.common.functions.field_aggregates import AVG, COUNT, FLOAT, INTEGER, MAX, MIN, SUM, FieldAggregate
from penstock.common.functions.joined_fields import JoinedField
from penstock.common.typeinfo import RowTypeInfo, TypeInformation, Types
from penstock.engine.plan.transformations import Relation, Transformation, UnionTransformation

if TYPE_CHECKING:
    from penstock.engine.runtime.windows.two_streams import JoinKind

_INTEGERS = (Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG())
KEYS: tuple[TypeInformation, ...] = (
    *_INTEGERS, Types.STRING(), Types.BOOLEAN(), Types.SQL_DATE(),
    Types.PRIMITIVE_ARRAY(Types.BYTE()),
)  # fmt: skip
Keys = tuple[tuple[str, ...], tuple[str, ...]]
"""The fields of the keys of both sides of a join."""
_FLOATS = (Types.FLOAT(), Types.DOUBLE())
_TIMES = (Types.SQL_TIMESTAMP(), Types.INSTANT())
COMPARED = (*KEYS, *_FLOATS, *_TIMES)


@dataclass(frozen=True)
class ForOperators(Relation):
    """An operation that no DataFrame computes, and why: mostly because it calls a function."""

    why: str = "it calls a function"

    def reason_for_operators(self) -> str | None:
        """Return why."""
        return self.why


@dataclass(frozen=True)
class Project(Relation):
    """These columns."""

    names: tuple[str, ...] = ()
    is_work = False
    keeps_order = True

    @property
    def has_partitions(self) -> bool:
        """Whether its input has them."""
        return passes_partitions(self)


@dataclass(frozen=True)
class Union(Relation):
    """The rows of all inputs."""

    is_work = False
    keeps_order = True

    def reason_for_operators(self) -> str | None:
        """Return how the streams differ."""
        types = [one.output_type for one in self.inputs]
        if any(kind != types[0] for kind in types):
            return "its streams have different types"
        reason = reason_of_fields(types[0], _names(types[0]), (Types.BIG_DEC(),), of="its column", are_wanted=False)
        # Spark would give them one scale, and round some: those inside of lists and rows, too.
        decimals = (name for name in _names(types[0]) if str(Types.BIG_DEC()) in str(_types(types[0])[name]))
        return reason or next((f"its column {name!r} contains decimals" for name in decimals), None)


@dataclass(frozen=True)
class OfKeys(Relation):
    """A relation of two streams by equal keys. `keys`: None if one is a function."""

    keys: Keys | None

    def reason_for_operators(self) -> str | None:
        """Return what is wrong with the keys."""
        return _reason_of_keys(self.inputs, self.keys)

    def is_timed(self, are_timed: Sequence[bool]) -> bool:
        """Return True: it ends with the streams."""
        return True


@dataclass(frozen=True)
class Join(OfKeys):
    """For each pair of rows with equal keys, fields of both."""

    kind: JoinKind
    fields: tuple[JoinedField, ...]


@dataclass(frozen=True)
class SemiJoin(OfKeys):
    """The rows of the first stream with a partner in the second; `anti`: those without."""

    anti: bool


@dataclass(frozen=True)
class Cross(Relation):
    """For each pair of rows, fields of both."""

    fields: tuple[JoinedField, ...] = ()


@dataclass(frozen=True)
class Distinct(Relation):
    """A row of each key. `fields`: those of the key; None: all."""

    fields: tuple[str, ...] | None = None

    @property
    def depends_on_order(self) -> bool:  # type: ignore[override]
        """Whether the first row of a key stays, of several that differ."""
        return self.fields is not None

    @property
    def varies(self) -> bool:
        """Whether any of several rows stays."""
        return self.fields is not None

    def reason_for_operators(self) -> str | None:
        """Return what is wrong with the key."""
        row_type = self.inputs[0].output_type
        return reason_of_fields(row_type, _names(row_type) if self.fields is None else self.fields, KEYS)


@dataclass(frozen=True)
class First(Relation):
    """The first `count` rows: any, without an order."""

    count: int = 0
    keeps_order = True

    @property
    def depends_on_order(self) -> bool:  # type: ignore[override]
        """Whether the first rows are not any: those of sorted partitions come one after the other in Spark, too."""
        return not isinstance(self.inputs[0].relation, SortPartition)

    @property
    def varies(self) -> bool:
        """True: the first ones of an exchange, or of rows that a sort does not tell apart."""
        return True


@dataclass(frozen=True)
class Aggregate(Relation):
    """For each key its fields, and aggregates of its rows."""

    key_fields: tuple[str, ...]
    aggregates: tuple[FieldAggregate, ...]

    @property
    def varies(self) -> bool:
        """Whether a sum of floats is rounded by the order of the rows."""
        return not all(one.in_any_order for one in self.aggregates)

    def reason_for_operators(self) -> str | None:
        """Return what is wrong with the key, or an aggregate that Spark computes differently."""
        row_type = self.inputs[0].output_type
        reason = reason_of_fields(row_type, self.key_fields, KEYS)
        return reason or next(filter(None, (self._reason_of_one(one, row_type) for one in self.aggregates)), None)

    def _reason_of_one(self, one: FieldAggregate, row_type: Any) -> str | None:
        if one.kind == COUNT:
            return None
        if one.kind == SUM:
            return None if one.family in (INTEGER, FLOAT) else f"{one.name!r} is a sum of decimals"
        if one.kind in (MIN, MAX):
            return reason_of_fields(row_type, one.fields, COMPARED, of=f"{one.name!r} compares")
        if one.kind == AVG:
            return None if one.family == FLOAT else f"{one.name!r}: Spark rounds an average of whole numbers twice"
        return f"{one.name!r} ({one.kind}) is by the order of records, or a function"


@dataclass(frozen=True)
class Rolled(Relation):
    """For each key one of its rows, with the sum of a field, or its least or greatest value.

    `kind`: SUM, MIN or MAX. `whole`: the row that has that value, and not any row with it.
    """

    key_fields: tuple[str, ...]
    kind: str
    field: str
    whole: bool = False
    depends_on_order = True

    @property
    def varies(self) -> bool:
        """True: other fields are those of any row."""
        return True

    def reason_for_operators(self) -> str | None:
        """Return what is wrong with the key, or with the field."""
        if self.field in self.key_fields:
            return f"{self.field!r} is a field of the key"
        row_type = self.inputs[0].output_type
        reason = reason_of_fields(row_type, self.key_fields, KEYS)
        kinds = (*_INTEGERS, Types.DOUBLE()) if self.kind == SUM else (*KEYS, *_TIMES)
        return reason or reason_of_fields(row_type, (self.field,), kinds, of="the field")


@dataclass(frozen=True)
class SortGroups(Relation):
    """The same rows, in groups of equal keys, each sorted by a field."""

    key_fields: tuple[str, ...]
    field: str
    descending: bool = False
    depends_on_order = True
    sets_order = True

    @property
    def has_partitions(self) -> bool:
        """True."""
        return True

    def reason_for_operators(self) -> str | None:
        """Return what is wrong with the key, or with the field."""
        row_type = self.inputs[0].output_type
        return reason_of_fields(row_type, self.key_fields, KEYS) or reason_of_fields(row_type, (self.field,), COMPARED)

    def is_timed(self, are_timed: Sequence[bool]) -> bool:
        """Return True: a group ends with the stream."""
        return True


@dataclass(frozen=True)
class PartitionByRange(Relation):
    """The same rows, by ranges of their keys. Those of one sender stay in order."""

    fields: tuple[str, ...] = ()
    keeps_order = True

    @property
    def varies(self) -> bool:
        """True: the bounds are those of a sample."""
        return True

    @property
    def has_partitions(self) -> bool:
        """True."""
        return True

    def reason_for_operators(self) -> str | None:
        """Return what is wrong with the key."""
        return reason_of_fields(self.inputs[0].output_type, self.fields, COMPARED)


@dataclass(frozen=True)
class SortPartition(Relation):
    """The same rows, sorted in each partition."""

    field: str
    descending: bool = False
    sets_order = True

    @property
    def depends_on_order(self) -> bool:  # type: ignore[override]
        """Whether rows with equal keys stay in an order. That of another sort becomes a part of the key."""
        return not isinstance(self.inputs[0].relation, SortPartition)

    @property
    def varies(self) -> bool:
        """Whether rows are spread over partitions, and rows with equal keys come in any order."""
        return True

    @property
    def has_partitions(self) -> bool:
        """True."""
        return True

    def reason_for_operators(self) -> str | None:
        """Return what is wrong with the key."""
        return reason_of_fields(self.inputs[0].output_type, (self.field,), COMPARED)

    def is_timed(self, are_timed: Sequence[bool]) -> bool:
        """Return False: whole partitions have no time."""
        return False


def relation_of(stream: Transformation) -> Relation | None:
    """Return the relation of a stream, also of a union; None if only operators know it."""
    return Union(tuple(stream.inputs)) if isinstance(stream, UnionTransformation) else stream.relation


def passes_partitions(relation: Relation) -> bool:
    """Return whether the input of a relation has partitions."""
    before = relation_of(relation.inputs[0])
    return before is not None and before.has_partitions


def _names(row_type: Any) -> tuple[str, ...]:
    return tuple(row_type.get_field_names()) if isinstance(row_type, RowTypeInfo) else ()


def _types(row_type: RowTypeInfo) -> dict[str, TypeInformation]:
    return dict(zip(row_type.get_field_names(), row_type.get_field_types(), strict=True))


def _reason_of_keys(inputs: Sequence[Transformation], keys: Keys | None) -> str | None:
    if keys is None:
        return "its key is a function"
    for stream, fields in zip(inputs, keys, strict=True):
        if reason := reason_of_fields(stream.output_type, fields, KEYS):
            return reason
    first, second = ([_types(of.output_type)[name] for name in fields] for of, fields in zip(inputs, keys, strict=True))
    return None if first == second else f"its keys have the types {first} and {second}"


def reason_of_fields(
    row_type: Any,
    fields: Sequence[str],
    kinds: Sequence[TypeInformation],
    *,
    of: str = "its key",
    are_wanted: bool = True,
) -> str | None:
    """Return a text about the first of these fields whose type is not among `kinds`; or is, unless they are wanted."""
    if not isinstance(row_type, RowTypeInfo):
        return "its rows have no declared type"
    types = _types(row_type)
    for name in fields:
        if name not in types:
            return f"there is no field {name!r}"
        if (types[name] in kinds) is not are_wanted:
            return f"{of} {name!r} has the type {types[name]}"
    return None
