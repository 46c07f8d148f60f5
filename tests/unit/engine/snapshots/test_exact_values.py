"""Values on their way to a client of queryable state."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import json
import math
import uuid
from collections import namedtuple
from typing import Any

import pytest

from penstock.api.windows.window import TimeWindow
from penstock.common.types import Row
from penstock.engine.snapshots.missing_classes import MissingObject
from penstock.engine.snapshots.shown_values import exact_of, value_of
from penstock.engine.state.container_keys import as_key

Point = namedtuple("Point", "x y")
ROW = Row(1, "a")
ROW.set_field_names(["number", "text"])


@dataclasses.dataclass
class Order:
    """A user's class."""

    total: int


@pytest.mark.parametrize(
    "value",
    [
        None, True, 0, -(2**70), 1.5, -0.0, math.inf, "größe\n\"", b"\x00\xff", [1, [2]], (1, ("a", None)), {1, 2},
        frozenset({"a"}), {"a": 1}, {(1, "a"): [b""]}, {}, ROW, Row(1), TimeWindow(0, 10), datetime.date(2024, 2, 29),
        datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC), datetime.time(1, 2, 3), decimal.Decimal("1.10"),
        uuid.UUID(int=7),
    ],
    ids=repr,
)  # fmt: skip
def test_values_come_back_as_they_were(value: Any) -> None:
    """A tuple would be received as a list, and a number with fewer digits."""
    back = value_of(json.loads(json.dumps(exact_of(value), allow_nan=False)))
    assert back == value and type(back) is type(value) and repr(back) == repr(value)


def test_no_number_comes_back_as_none_of_them() -> None:
    """NaN has no JSON."""
    assert math.isnan(value_of(json.loads(json.dumps(exact_of(math.nan), allow_nan=False))))


def test_objects_of_users_come_back_by_their_fields() -> None:
    """A client would need the program's classes, or have to unpickle received data."""
    back = value_of(exact_of([Order(7), Point(1, 2)]))
    assert isinstance(back[0], MissingObject) and back[0].fields == {"total": 7} and "Order" in repr(back[0])
    assert back[1].fields == {"x": 1, "y": 2}
    assert isinstance(value_of(exact_of(object())), MissingObject)


def test_a_list_that_is_a_key_comes_back_as_a_list() -> None:
    """A client would not find the key that it queried."""
    assert value_of(exact_of(as_key([1, {"a": 2}]))) == [1, {"a": 2}]


def test_what_is_no_value_is_refused() -> None:
    """An answer of another version would be misread."""
    with pytest.raises(ValueError, match="expected exact JSON of a value"):
        value_of({"other": 1})
