"""Key groups of keys of several columns: the same as those of tuples."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from random import Random

import pyarrow
import pytest

from penstock.engine.runtime.columns.keys import row_keys
from penstock.engine.runtime.columns.tuple_groups import groups_of_tuples
from penstock.engine.state.key_groups import key_group_of

VALUES = {
    "texts": [None, "", "a", "bb", "ééé", "x" * 300],
    "short texts": ["", "a", None, "channel-17", "ééé", "x" * 30],
    "large integers": [0, 1, -5, 256, 10**18, -(1 << 63), (1 << 63) - 1],
    "integers and NULL": [None, *range(-300, 300)],
    "booleans": [True, None, False],
    "moments": [dt.datetime(2020, 1, 1), dt.datetime(1900, 1, 1, 2, 3), None],
    "floats": [0.5, 1.0, -0.0, 1e300],
    "decimals": [Decimal("1.50"), Decimal("2.00"), None],
    "rows": [{"a": 1, "b": None}, {"a": 2, "b": "x"}],
}


@pytest.mark.parametrize("seed", range(8))
def test_a_row_goes_where_the_tuple_of_its_key_goes(seed: int) -> None:
    """Otherwise rows of one key would be aggregated in two subtasks, or apart from their restored state."""
    random = Random(seed)
    names = random.sample([*VALUES], random.randrange(2, len(VALUES) + 1))
    columns = [pyarrow.array([random.choice(VALUES[name]) for _ in range(200)]) for name in names]
    expected = [key_group_of(key, 128) for key in row_keys(columns).to_list()]
    assert groups_of_tuples(columns, 128).tolist() == expected
    assert groups_of_tuples([column.slice(70) for column in columns], 128).tolist() == expected[70:]
