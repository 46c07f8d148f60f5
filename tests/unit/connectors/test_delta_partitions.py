"""Folders of a Delta Lake table: readers parse their names as values of the columns' types."""

from __future__ import annotations

import datetime as dt
import pickle
from typing import Any

import numpy as np
import pytest

from penstock.common import Row, Types
from penstock.connectors.tables.delta import DeltaFolders

COLUMNS = ("day", "id", "small", "ok", "name")
KINDS = [Types.SQL_DATE(), Types.INT(), Types.BYTE(), Types.BOOLEAN(), Types.STRING(), Types.DOUBLE()]
TYPE = Types.ROW_NAMED([*COLUMNS, "value"], KINDS)
FINE: dict[str, Any] = {"day": dt.date(2020, 1, 2), "id": 7, "small": -3, "ok": True, "name": "a b", "value": 1.5}
FOLDER = "day=2020-01-02/id=7/small=-3/ok=true/name=a b"


def assigner() -> DeltaFolders:
    """As a worker has it."""
    return pickle.loads(pickle.dumps(DeltaFolders(COLUMNS, TYPE)))  # type: ignore[no-any-return]


def folder(record: Any) -> str:
    return assigner().get_bucket_id(record, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("record", [FINE, Row(**FINE), {**FINE, "id": 7.0}, {**FINE, "id": np.int64(7)}])
def test_values_become_ones_of_the_columns(record: Any) -> None:
    """With a folder `id=7.0` the table would be unreadable."""
    assert folder(record) == FOLDER


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("id", "x"), ("id", 7.5), ("small", 300), ("ok", 1), ("day", dt.datetime(2020, 1, 2, 3)), ("day", "2020-01-02"),
        ("name", 5),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused_before_the_table_has_it(column: str, value: Any) -> None:
    """The table would be broken for all users, and the job could not continue."""
    with pytest.raises(TypeError, match=f"column '{column}'"):
        folder({**FINE, column: value})


def test_values_that_are_equal_are_told_apart_by_their_types() -> None:
    """True would be taken for the 1 of the record before."""
    known = assigner()
    assert known.get_bucket_id(FINE, None) == known.get_bucket_id({**FINE, "id": 7.0}, None) == FOLDER  # type: ignore[arg-type]
    for value in (1, 1.0):
        with pytest.raises(TypeError, match="column 'ok'"):
            known.get_bucket_id({**FINE, "ok": value}, None)  # type: ignore[arg-type]
    assert "id=__HIVE_DEFAULT_PARTITION__" in known.get_bucket_id({**FINE, "id": None}, None)  # type: ignore[arg-type]
