"""The function of Nexmark's query q14, which is in Java there.

CREATE FUNCTION count_char AS 'penstock.table.connectors.nexmark_functions.count_char' LANGUAGE PYTHON

Source: Nexmark, com.github.nexmark.flink.udf.CountChar.
"""

from __future__ import annotations

from penstock.table.udf import udf


@udf(result_type="BIGINT")
def count_char(text: str | None, character: str) -> int:
    """Return how often a character is in a text; 0 for NULL."""
    return 0 if text is None else text.count(character)
