"""Plans in JSON as the planner writes them, small enough to be read."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

ROWTIME = {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3, "kind": "ROWTIME"}


def ref(index: int, kind: Any) -> dict[str, Any]:
    return {"kind": "INPUT_REF", "inputIndex": index, "type": kind}


def literal(value: Any, kind: Any) -> dict[str, Any]:
    return {"kind": "LITERAL", "value": value, "type": kind}


def call(name: str, kind: Any, *operands: Any) -> dict[str, Any]:
    return {"kind": "CALL", "internalName": f"${name}$1", "operands": list(operands), "type": kind}


def node(number: int, kind: str, output: Any, **parts: Any) -> dict[str, Any]:
    return {"id": number, "type": kind, "outputType": output, "description": f"{kind} of the test", **parts}


def table(identifier: str, *columns: dict[str, Any], **options: str) -> dict[str, Any]:
    return {"identifier": identifier, "resolvedTable": {"schema": {"columns": list(columns)}, "options": options}}


def document(*nodes: dict[str, Any], **changes: Any) -> str:
    """A plan in which each node feeds the next."""
    edges = [
        {"source": one["id"], "target": other["id"], "shuffle": {"type": "FORWARD"}, "shuffleMode": "PIPELINED"}
        for one, other in pairwise(nodes)
    ]
    return json.dumps({"flinkVersion": "2.3", "nodes": list(nodes), "edges": edges, **changes})


SCAN = node(
    1,
    "stream-exec-table-source-scan_2",
    "ROW<`a` BIGINT, `ts` TIMESTAMP(3)>",
    scanTableSource={
        "table": table("`c`.`d`.`t`", {"name": "a", "dataType": "BIGINT"}, connector="any"),
        "abilities": [
            {"type": "ProjectPushDown", "projectedFields": [[0], [2, 1]], "producedType": "ROW<`a` BIGINT> NOT NULL"}
        ],
    },
)
WATERMARK = node(
    2,
    "stream-exec-watermark-assigner_1",
    {"type": "ROW", "fields": [{"name": "a", "fieldType": "BIGINT"}, {"name": "ts", "fieldType": ROWTIME}]},
    watermarkExpr=call("-", "TIMESTAMP(3)", ref(1, "TIMESTAMP(3)"), literal("4000", "INTERVAL SECOND(6) NOT NULL")),
    rowtimeFieldIndex=1,
)
CALC = node(
    3,
    "stream-exec-calc_1",
    "ROW<`b` BIGINT>",
    projection=[call("+", "BIGINT", ref(0, "BIGINT"), literal(1, "INT NOT NULL"))],
    condition=call(">", "BOOLEAN", ref(0, "BIGINT"), literal(5, "INT NOT NULL")),
)
SINK = node(
    4,
    "stream-exec-sink_2",
    "ROW<`b` BIGINT>",
    configuration={"table.exec.sink.not-null-enforcer": "ERROR"},
    dynamicTableSink={"table": table("`c`.`d`.`s`", {"name": "b", "dataType": "BIGINT"}, connector="any")},
    inputChangelogMode=["INSERT"],
)
