"""Composite types: arrays, lists, maps, rows, tuples."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from penstock.common.types import Row, row_factory
from penstock.common.types.basic_types import PRIMITIVES, BasicType, BasicTypeInfo, TypeInformation, checked_type
from penstock.common.types.record_fields import object_factory

if TYPE_CHECKING:
    import pyarrow


class _ArrayTypeInfo(TypeInformation):
    """An ordered collection of values of one type."""

    def __init__(self, element_type: TypeInformation) -> None:
        self._element_type = checked_type(element_type)

    def _parts(self) -> tuple[Any, ...]:
        return (self._element_type,)

    def to_arrow(self) -> pyarrow.DataType | None:
        """Return the Arrow type of lists of the elements' type, or None if the elements are pickled."""
        import pyarrow

        element = self._element_type.to_arrow()
        return None if element is None else pyarrow.list_(element)

    def need_conversion(self) -> bool:
        """Return whether the elements need conversion."""
        return self._element_type.need_conversion()

    def to_internal_type(self, obj: Any) -> Any:
        """Convert each element."""
        return obj if obj is None or not self.need_conversion() else list(map(self._element_type.to_internal_type, obj))

    def from_internal_type(self, obj: Any) -> Any:
        """Convert each element."""
        if obj is None or not self.need_conversion():
            return obj
        return list(map(self._element_type.from_internal_type, obj))


class PrimitiveArrayTypeInfo(_ArrayTypeInfo):
    """The type of lists of numbers or booleans without None; for BYTE, of bytes.

    Raises TypeError for other elements.
    """

    def __init__(self, element_type: TypeInformation) -> None:
        super().__init__(element_type)
        if element_type not in [BasicTypeInfo(primitive) for primitive in PRIMITIVES]:
            raise TypeError(f"a primitive array must have numbers, booleans or characters, got {element_type!r}")

    def to_arrow(self) -> pyarrow.DataType | None:
        """Return the Arrow type of bytes, or of lists."""
        import pyarrow

        return pyarrow.binary() if self._element_type == BasicTypeInfo(BasicType.BYTE) else super().to_arrow()


BYTES = PrimitiveArrayTypeInfo(BasicTypeInfo(BasicType.BYTE))
"""The type of bytes."""


class BasicArrayTypeInfo(_ArrayTypeInfo):
    """The type of lists of numbers, booleans or strings, possibly None. Raises TypeError for other elements."""

    def __init__(self, element_type: TypeInformation) -> None:
        super().__init__(element_type)
        if element_type not in [BasicTypeInfo(basic_type) for basic_type in (*PRIMITIVES, BasicType.STRING)]:
            raise TypeError(f"a basic array must have numbers, booleans, characters or strings, got {element_type!r}")


class ObjectArrayTypeInfo(_ArrayTypeInfo):
    """The type of lists of any elements, called arrays in Java."""


class ListTypeInfo(_ArrayTypeInfo):
    """The type of lists."""

    def __init__(self, element_type: TypeInformation) -> None:
        super().__init__(element_type)
        self.elem_type = element_type


LIST_TYPES = (PrimitiveArrayTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo, ListTypeInfo)
"""Types whose values are lists (the first one has bytes for BYTE)."""


class MapTypeInfo(TypeInformation):
    """The type of dicts."""

    def __init__(self, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        self._key_type_info = checked_type(key_type_info)
        self._value_type_info = checked_type(value_type_info)

    def _parts(self) -> tuple[Any, ...]:
        return self._key_type_info, self._value_type_info

    def to_arrow(self) -> pyarrow.DataType | None:
        """Return the Arrow type of maps, or None if keys or values are pickled."""
        import pyarrow

        key, value = self._key_type_info.to_arrow(), self._value_type_info.to_arrow()
        return None if key is None or value is None else pyarrow.map_(key, value)

    def need_conversion(self) -> bool:
        """Return whether keys or values need conversion."""
        return self._key_type_info.need_conversion() or self._value_type_info.need_conversion()

    def to_internal_type(self, obj: Any) -> Any:
        """Convert each key and value."""
        if obj is None or not self.need_conversion():
            return obj
        to_key, to_value = self._key_type_info.to_internal_type, self._value_type_info.to_internal_type
        return {to_key(key): to_value(value) for key, value in obj.items()}

    def from_internal_type(self, obj: Any) -> Any:
        """Convert each key and value, from a dict or from pairs."""
        if obj is None:
            return None
        to_key, to_value = self._key_type_info.from_internal_type, self._value_type_info.from_internal_type
        return {to_key(key): to_value(value) for key, value in (obj.items() if isinstance(obj, dict) else obj)}


class _FieldsTypeInfo(TypeInformation):
    """A type of records with a fixed number of fields."""

    _field_types: list[TypeInformation]

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields, in order."""
        return self._field_types

    def _column_names(self) -> Sequence[str]:
        return [f"f{position}" for position in range(len(self._field_types))]

    def to_arrow(self) -> pyarrow.DataType | None:
        """Return the Arrow type of structs, or None if one of the fields is pickled."""
        import pyarrow

        types = [field_type.to_arrow() for field_type in self._field_types]
        if None in types:
            return None
        return pyarrow.struct(list(zip(self._column_names(), types, strict=True)))

    def need_conversion(self) -> bool:
        """Return True: a column holds a dict by field name (f0, f1 … for unnamed fields)."""
        return True

    def _to_columns(self, values: Sequence[Any]) -> dict[str, Any]:
        columns = zip(self._column_names(), self._field_types, values, strict=True)
        return {name: field_type.to_internal_type(value) for name, field_type, value in columns}

    def _factory(self) -> Callable[[Sequence[Any]], Any]:
        """Return a function from the values of the fields, in order, to a value of this type."""
        raise NotImplementedError

    def _from_columns(self, columns: dict[str, Any]) -> list[Any]:
        names = zip(self._column_names(), self._field_types, strict=True)
        return [field_type.from_internal_type(columns[name]) for name, field_type in names]


class RowTypeInfo(_FieldsTypeInfo):
    """The type of Rows with or without field names. Raises ValueError if the numbers of names and types differ.

    `record_class`: values are instances of this dataclass or NamedTuple instead of Row. Equality ignores it.
    """

    def __init__(
        self,
        field_types: Sequence[TypeInformation],
        field_names: Sequence[str] | None = None,
        record_class: type[Any] | None = None,
    ) -> None:
        self._field_types = [checked_type(field_type) for field_type in field_types]
        if field_names is not None and len(field_names) != len(field_types):
            raise ValueError(f"got {len(field_types)} types for the fields {', '.join(field_names)}")
        self._field_names = None if field_names is None else list(field_names)
        self.record_class = record_class

    def _parts(self) -> tuple[Any, ...]:
        return tuple(self._field_types), tuple(self._column_names())

    def _column_names(self) -> Sequence[str]:
        return super()._column_names() if self._field_names is None else self._field_names

    def get_field_names(self) -> list[str]:
        """Return the names of the fields, in order; f0, f1 … if they are unnamed."""
        return list(self._column_names())

    def get_field_index(self, field_name: str) -> int:
        """Return the position of the field, or -1 if the fields have no names. Raises ValueError if it is unknown."""
        names = self._column_names()
        if field_name in names:
            return names.index(field_name)
        if self._field_names is None:
            return -1
        raise ValueError(f"unknown field {field_name!r}, the type has {', '.join(names)}")

    def to_internal_type(self, obj: Any) -> Any:
        """Convert a Row, tuple, list, dict by name, or object with attributes of these names."""
        if obj is None:
            return None
        names = self._column_names()
        if isinstance(obj, Row):
            return self._to_columns(list(obj) if obj._fields is None else obj.get_fields_by_names(names))
        if isinstance(obj, (tuple, list)):
            return self._to_columns(obj)
        if isinstance(obj, dict):
            return self._to_columns([obj.get(name) for name in names])
        return self._to_columns([getattr(obj, name) for name in names])

    def from_internal_type(self, obj: Any) -> Any:
        """Convert to a Row, or to an instance of `record_class`."""
        return None if obj is None else self._factory()(self._from_columns(obj))

    def _factory(self) -> Callable[[Sequence[Any]], Any]:
        record_class: Any = self.record_class
        if record_class is not None:
            return _object_maker(record_class, tuple(self._column_names()))
        return _unnamed_row if self._field_names is None else row_factory(self._field_names)

    def __repr__(self) -> str:
        if self._field_names is None:
            return f"RowTypeInfo({', '.join(map(str, self._field_types))})"
        fields = zip(self._field_names, self._field_types, strict=True)
        return f"RowTypeInfo({', '.join(f'{name}: {field_type}' for name, field_type in fields)})"


def _unnamed_row(values: Sequence[Any]) -> Row:
    return Row(*values)


@lru_cache
def _object_maker(kind: Any, names: tuple[str, ...]) -> Callable[[Sequence[Any]], Any]:
    """Return a function from the values of fields to an object; other fields of a dataclass get their defaults."""
    if dataclasses.is_dataclass(kind) and {field.name for field in dataclasses.fields(kind)} == set(names):
        return object_factory(kind, names)
    return lambda values: kind(**dict(zip(names, values, strict=True)))


class TupleTypeInfo(_FieldsTypeInfo):
    """The type of tuples of a fixed length."""

    def __init__(self, field_types: Sequence[TypeInformation]) -> None:
        self._field_types = [checked_type(field_type) for field_type in field_types]

    def _parts(self) -> tuple[Any, ...]:
        return tuple(self._field_types)

    def to_internal_type(self, obj: Any) -> Any:
        """Convert a tuple, list or Row."""
        return None if obj is None else self._to_columns(tuple(obj))

    def from_internal_type(self, obj: Any) -> Any:
        """Convert to a tuple."""
        return None if obj is None else tuple(self._from_columns(obj))

    def _factory(self) -> Callable[[Sequence[Any]], Any]:
        return tuple

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(str, self._field_types))})"


class ExternalTypeInfo(TypeInformation):
    """Wraps another type and marks it as external. PyFlink's tables need this mark."""

    def __init__(self, type_info: TypeInformation) -> None:
        self._type_info = checked_type(type_info)

    def _parts(self) -> tuple[Any, ...]:
        return (self._type_info,)

    def to_arrow(self) -> pyarrow.DataType | None:
        """Delegate to the wrapped type."""
        return self._type_info.to_arrow()

    def need_conversion(self) -> bool:
        """Delegate to the wrapped type."""
        return self._type_info.need_conversion()

    def to_internal_type(self, obj: Any) -> Any:
        """Delegate to the wrapped type."""
        return self._type_info.to_internal_type(obj)

    def from_internal_type(self, obj: Any) -> Any:
        """Delegate to the wrapped type."""
        return self._type_info.from_internal_type(obj)
