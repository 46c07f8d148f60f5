"""Modules that workers of most SQL jobs import: the process from which they are forked imports them before."""

from __future__ import annotations

from penstock.table.functions.families import FAMILIES

WORKER_MODULES = (
    "penstock.table.operators.scan",
    "penstock.table.operators.calc",
    "penstock.table.operators.group_aggregate",
    *(f"penstock.table.functions.{family}" for family in FAMILIES),
)
