"""Names of the columns that DataFrames compute."""

from __future__ import annotations

from penstock.hosts.spark.frames.column_names import inner_names, name_of


def test_names_stay_unless_spark_could_confuse_them() -> None:
    """Each relation would rename all columns, or a name would mean two of them."""
    assert inner_names(["id", "City", "c0"]) == ["id", "City", "c0"]
    for names in (["a", "A"], ["id", "b.c"], ["a b", "c1"], ["_row", "id"], ["ä", "id"], ["a`b", "id"], ["", "id"]):
        assert inner_names(names) == ["c0", "c1"]
    assert name_of(["id", "b.c"], "b.c") == "c1"
    assert name_of(["id", "city"], "city") == "city"
