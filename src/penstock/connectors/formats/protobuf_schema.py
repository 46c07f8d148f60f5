"""Schemas of Protobuf messages, and access to the package protobuf.

A schema is a set of descriptors, as `protoc --descriptor_set_out` writes it, and the name of a message in it. It is
sent to the workers as bytes: they do not need the modules that protoc generated. Source: Flink docs, "Protobuf format",
data type mapping.
"""

from __future__ import annotations

import importlib
import os
from functools import cache
from pathlib import Path
from typing import Any

from penstock.common.doors.extras import PROTOBUF
from penstock.common.errors import ProgramError
from penstock.common.typeinfo import RowTypeInfo, Types
from penstock.common.types.basic_types import TypeInformation


@cache
def protobuf() -> Any:
    """Return the package. Raise ProgramError if it is not installed."""
    try:
        package = importlib.import_module("google.protobuf")
        for part in ("descriptor_pb2", "descriptor_pool", "message", "message_factory"):
            importlib.import_module(f"google.protobuf.{part}")
    except ImportError:
        raise ProgramError(f"Protobuf needs the package protobuf, from 6.31 on: pip install '{PROTOBUF}'") from None
    return package


class ProtobufSchema:
    """A Protobuf message. Made by `of` or `from_descriptor_set`; `str()` is its full name."""

    def __init__(self, descriptor_set: bytes, message_name: str) -> None:
        self._descriptor_set = descriptor_set
        self._name = message_name
        self._class: Any = None

    @staticmethod
    def of(message_class: Any) -> ProtobufSchema:
        """Return the schema of a class that protoc generated. Raise TypeError for another class."""
        descriptor: Any = getattr(message_class, "DESCRIPTOR", None)
        file = getattr(descriptor, "file", None)
        if file is None or not isinstance(message_class, type):
            raise TypeError(f"expected a message class that protoc generated, got {message_class!r}")
        descriptor_set = protobuf().descriptor_pb2.FileDescriptorSet()
        _add(file, descriptor_set, set())
        return ProtobufSchema(descriptor_set.SerializeToString(), descriptor.full_name)

    @staticmethod
    def from_descriptor_set(descriptor_set: bytes | str | os.PathLike[str], message_name: str) -> ProtobufSchema:
        """Return the message with this full name, `package.Message`, from the output of protoc.

        `descriptor_set`: the bytes, or a local file, of `protoc --include_imports --descriptor_set_out=FILE`. Raise
        OSError if the file cannot be read, ValueError if its content is invalid or lacks the message.
        """
        data = descriptor_set if isinstance(descriptor_set, bytes) else Path(descriptor_set).read_bytes()
        schema = ProtobufSchema(data, message_name)
        schema.message_class()
        return schema

    def message_class(self) -> Any:
        """Return a class of these messages, made from the descriptors. Raise ValueError if they do not describe it."""
        if self._class is None:
            package = protobuf()
            pool = package.descriptor_pool.DescriptorPool()
            try:
                files = package.descriptor_pb2.FileDescriptorSet.FromString(self._descriptor_set)
                for file in files.file:
                    pool.AddSerializedFile(file.SerializeToString())
                descriptor = pool.FindMessageTypeByName(self._name)
            except (package.message.DecodeError, TypeError, KeyError) as error:
                raise ValueError(
                    f"cannot find the message {self._name} in these descriptors: {error}. Create them with protoc "
                    "--include_imports --descriptor_set_out=FILE"
                ) from None
            self._class = package.message_factory.GetMessageClass(descriptor)
        return self._class

    def row_type(self) -> RowTypeInfo:
        """Return the type of the Rows of these messages.

        int32, sint32, sfixed32: INT. int64, sint64, sfixed64, uint32, fixed32: LONG. uint64, fixed64: BIG_INT. An enum:
        STRING, its name. bytes: an array of BYTE. A repeated field: a LIST, a map: a MAP, a message: a ROW_NAMED. A
        message within itself is pickled.
        """
        return _row_type(self.message_class().DESCRIPTOR, ())

    def __str__(self) -> str:
        return self._name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProtobufSchema) and (self._name, self._descriptor_set) == (
            other._name,
            other._descriptor_set,
        )

    def __hash__(self) -> int:
        return hash((self._name, self._descriptor_set))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_class": None}


def checked_schema(schema: Any) -> ProtobufSchema:
    """Return the argument, or the schema of a generated class. Raise TypeError for anything else."""
    return schema if isinstance(schema, ProtobufSchema) else ProtobufSchema.of(schema)


def is_map(field: Any) -> bool:
    """Return whether the descriptor of a field describes a map."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _add(file: Any, descriptor_set: Any, known: set[str]) -> None:
    # Imported files must come before the file.
    if file.name not in known:
        known.add(file.name)
        for imported in file.dependencies:
            _add(imported, descriptor_set, known)
        file.CopyToProto(descriptor_set.file.add())


def _row_type(descriptor: Any, around: tuple[str, ...]) -> RowTypeInfo:
    around = (*around, descriptor.full_name)
    return Types.ROW_NAMED(
        [field.name for field in descriptor.fields], [_type_of(field, around) for field in descriptor.fields]
    )


def _type_of(field: Any, around: tuple[str, ...]) -> TypeInformation:
    if is_map(field):
        parts = field.message_type.fields_by_name
        return Types.MAP(_single(parts["key"], around), _single(parts["value"], around))
    return Types.LIST(_single(field, around)) if field.is_repeated else _single(field, around)


def _single(field: Any, around: tuple[str, ...]) -> TypeInformation:
    if field.message_type is not None:
        is_recursive = field.message_type.full_name in around
        return Types.PICKLED_BYTE_ARRAY() if is_recursive else _row_type(field.message_type, around)
    if field.type == field.TYPE_BYTES:
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    kinds = {
        field.CPPTYPE_INT32: Types.INT,
        field.CPPTYPE_INT64: Types.LONG,
        field.CPPTYPE_UINT32: Types.LONG,
        field.CPPTYPE_UINT64: Types.BIG_INT,
        field.CPPTYPE_DOUBLE: Types.DOUBLE,
        field.CPPTYPE_FLOAT: Types.FLOAT,
        field.CPPTYPE_BOOL: Types.BOOLEAN,
        field.CPPTYPE_ENUM: Types.STRING,
        field.CPPTYPE_STRING: Types.STRING,
    }
    return kinds[field.cpp_type]()
