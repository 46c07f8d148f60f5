"""The modules of functions, which are imported when a function is first looked up."""

from __future__ import annotations

FAMILIES = (
    "arithmetic",
    "arrays",
    "bitmaps",
    "casts",
    "comparison",
    "conditional",
    "dates",
    "elements",
    "hashes",
    "json_constructors",
    "json_queries",
    "like",
    "logic",
    "maps",
    "mathematics",
    "network",
    "regular_expressions",
    "rounding",
    "rows",
    "strings",
    "substrings",
    "temporal_arithmetic",
    "time_fields",
)
