"""The fields of a record, by name or by position."""

from __future__ import annotations

import pytest

from penstock.common.types import Row
from penstock.common.types.record_fields import fields_of


def test_a_field_that_a_record_does_not_have_is_no_null() -> None:
    """One letter wrong in a key, and an upsert would clear the column of each row."""
    for record in ({"id": 1, "dely": 5}, Row(id=1, dely=5)):
        with pytest.raises((TypeError, ValueError), match=r"delay"):
            fields_of(record, ("id", "delay"))
    assert fields_of({"id": 1, "delay": None, "more": 2}, ("id", "delay")) == [1, None]
    assert fields_of({"id": 1}, ("id", "delay"), has_all=False) == [1, None], "a file may leave it out"
