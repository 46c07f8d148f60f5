"""Tags of side outputs."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from penstock.common.typeinfo import RowTypeInfo, TypeInformation, Types
from penstock.common.values.copies import never_copied

T = TypeVar("T")

_tags_exist = False


@never_copied
class OutputTag(Generic[T]):
    """Identifies a side output and the type of its records. Tags with equal ids are equal, whatever their types.

    A function emits to the output with `yield tag, value`; `DataStream.get_side_output(tag)` reads it. `type_info` may
    be a list of TypeInformation for rows with these fields; without `type_info`, values are pickled. Raises ValueError
    if `tag_id` is empty, TypeError if it is not a str or `type_info` is not a type. Source: Flink docs, "Side Outputs".
    """

    __slots__ = ("tag_id", "type_info")

    def __init__(self, tag_id: str, type_info: TypeInformation | list[TypeInformation] | None = None) -> None:
        global _tags_exist
        if not isinstance(tag_id, str):
            raise TypeError(f"the id of an OutputTag must be a str, got {tag_id!r}")
        if not tag_id:
            raise ValueError("the id of an OutputTag must not be empty")
        self.tag_id = tag_id
        self.type_info = _type_of(type_info)
        _tags_exist = True

    def __eq__(self, other: object) -> bool:
        return self.tag_id == other.tag_id if isinstance(other, OutputTag) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r}, {self.type_info!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickle through __init__, so that a process that only receives tags also registers that tags exist.
        return OutputTag, (self.tag_id, self.type_info)


def _type_of(type_info: TypeInformation | list[TypeInformation] | None) -> TypeInformation:
    if type_info is None:
        return Types.PICKLED_BYTE_ARRAY()
    if isinstance(type_info, list):
        return RowTypeInfo(type_info)
    if isinstance(type_info, TypeInformation):
        return type_info
    raise TypeError(f"the type of an OutputTag must be a TypeInformation or a list of them, got {type_info!r}")


def tags_exist() -> bool:
    """Return whether this process has ever created an OutputTag. If not, no emitted value can be for a side output.

    Call it once per chunk, *after* the user's code has run, because that code may create or unpickle a tag.
    """
    return _tags_exist
