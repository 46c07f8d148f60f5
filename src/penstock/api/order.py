"""Orders of sorting."""

from __future__ import annotations

import enum


class Order(enum.Enum):
    """The order of sorted records, by their keys. Source: Flink, org.apache.flink.api.common.operators.Order."""

    ASCENDING = "ascending"
    DESCENDING = "descending"
