"""The types of joins, as plans name them. Source: Flink's FlinkJoinType."""

from __future__ import annotations

INNER, LEFT, RIGHT, FULL, SEMI, ANTI = "INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"
