"""The plans that Flink's restore tests run their programs with: those of older planners, too."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from functools import cache
from typing import Any

from tests.table.flink_cases import PLANS, cases_of


def plans_of(program: dict[str, Any]) -> list[str]:
    """Return the plans of streaming that are recorded for a program, with the connector and options of its tables."""
    options = {one["name"]: one["options"] for one in program["setup"] if "schema" in one}
    found = []
    for text in _recorded().get(program["id"], ()):
        plan = json.loads(text)
        for node in plan["nodes"]:
            for table in tables_of(node):
                connect(table, options.get(table["identifier"].rpartition(".")[2].strip("`"), {}))
        found.append(json.dumps(plan))
    return found


@cache
def _recorded() -> dict[str, list[str]]:
    found = defaultdict(list)
    with gzip.open(cases_of(PLANS), "rt", encoding="utf-8") as lines:
        for one in map(json.loads, lines):
            if not one["node"].startswith("batch-"):
                found[one["program"]].append(json.dumps(one["plan"]))
    return found


def tables_of(node: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tables that a node reads, writes or looks up."""
    specs = [node.get("scanTableSource"), node.get("dynamicTableSink")]
    specs.append((node.get("temporalTable") or {}).get("lookupTableSource"))
    return [spec["table"] for spec in specs if spec and "table" in spec]


def connect(table: dict[str, Any], options: dict[str, str]) -> None:
    """Give a table of a plan the connector of the tests, which catalogs had, and options."""
    resolved = table.get("resolvedTable")
    if resolved is not None:
        resolved["options"] = {"connector": "values", **(resolved.get("options") or {}), **options}
