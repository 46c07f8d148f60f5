"""Types from JSON schemas. Source: Flink's JsonRowSchemaConverter (flink-json)."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.common.errors.unreadable import UNREADABLE
from penstock.common.typeinfo import RowTypeInfo, TypeInformation, Types

_FORMATS = {"date": Types.SQL_DATE, "time": Types.SQL_TIME, "date-time": Types.SQL_TIMESTAMP}
_SIMPLE = {"number": Types.BIG_DEC, "integer": Types.BIG_INT, "boolean": Types.BOOLEAN}


def type_of_schema(json_schema: str) -> RowTypeInfo:
    """Return the type of a schema whose root is an object.

    Numbers are BIG_DEC and integers BIG_INT, as a schema does not say how large they are. `null` beside another type is
    left out. Raises ValueError for what is no JSON, has no root object, or says less than a type needs.
    """
    try:
        root = msgspec.json.decode(json_schema)
    except UNREADABLE as error:
        raise ValueError(f"the JSON schema is not JSON: {error}") from None
    found = _type_of(root, "the root", root)
    if not isinstance(found, RowTypeInfo):
        raise ValueError(f"the root of a JSON schema of rows is an object with properties, got {found}")
    return found


def _type_of(node: Any, where: str, root: Any) -> TypeInformation:
    if not isinstance(node, dict):
        raise ValueError(f"the JSON schema says nothing of {where}: {node!r:.80}")
    if "$ref" in node:
        return _type_of(_referenced(node["$ref"], root), where, root)
    kinds = node.get("type", "object" if "properties" in node else None)
    named = [kind for kind in ([kinds] if isinstance(kinds, str) else kinds or []) if kind != "null"]
    if len(named) != 1:
        raise ValueError(f"the JSON schema must give {where} one type beside null, got {kinds!r}")
    kind = named[0]
    if kind in _SIMPLE:
        return _SIMPLE[kind]()
    if kind == "string":
        if node.get("contentEncoding") == "base64":
            return Types.PRIMITIVE_ARRAY(Types.BYTE())
        return _FORMATS.get(node.get("format", ""), Types.STRING)()
    if kind == "array" and "items" in node:
        items = node["items"]
        if isinstance(items, list):
            return Types.ROW([_type_of(item, f"{where}[{i}]", root) for i, item in enumerate(items)])
        return Types.OBJECT_ARRAY(_type_of(items, f"the items of {where}", root))
    if kind == "object" and "properties" in node:
        properties = node["properties"]
        types = [_type_of(part, repr(name), root) for name, part in properties.items()]
        return Types.ROW_NAMED(list(properties), types)
    raise ValueError(f"the JSON schema says too little of {where}: {node!r:.80}")


def _referenced(reference: Any, root: Any) -> Any:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        raise ValueError(f"references in a JSON schema begin with '#/', got {reference!r}")
    node = root
    for name in reference[2:].split("/"):
        if not isinstance(node, dict) or name not in node:
            raise ValueError(f"the JSON schema has nothing at {reference!r}")
        node = node[name]
    return node
