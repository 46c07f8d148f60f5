"""Modules that workers of most SQL jobs import: the process from which they are forked imports them before."""

from __future__ import annotations

from penstock.table.functions.families import FAMILIES

WORKER_MODULES = (
    "penstock.table.operators.sources.scan",
    "penstock.table.operators.rows.calc",
    "penstock.table.operators.grouping.group_aggregate",
    *(f"penstock.table.functions.{family}" for family in FAMILIES),
)
