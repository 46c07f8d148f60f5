"""Floats that are compared bit by bit, as keys and rows of tables are."""

from __future__ import annotations

import math
import pickle
from itertools import product
from typing import Any

import pytest

from penstock.common.values.copies import independent_copy
from penstock.common.values.exact_floats import FloatKey, exact
from penstock.engine.state.container_keys import as_key
from penstock.engine.state.keys import encode_key
from penstock.engine.state.pickles import dumps

FLOATS = [0.0, -0.0, math.nan, 1.0, math.inf, -math.inf]


def test_each_float_equals_itself_alone() -> None:
    """Also after it was stored, or copied, and with a NaN of other bits."""
    for (one, first), (other, second) in product(enumerate(FLOATS), repeat=2):
        for found in (exact(float(str(second))), pickle.loads(dumps(exact(second))), independent_copy(exact(second))):
            assert (exact(first) == found, exact(first) != found) == (one == other, one != other)
            assert (found in {exact(first)}) is (one == other)
    assert exact(-math.nan) == exact(math.nan)


def test_each_float_has_its_own_bytes() -> None:
    """Key groups are those of these bytes: other floats keep theirs."""
    assert len({encode_key(exact(one)) for one in FLOATS}) == len(FLOATS)
    assert [type(exact(one)) for one in FLOATS] == [float, FloatKey, FloatKey, float, float, float]


@pytest.mark.parametrize(
    "of", [lambda one: [one], lambda one: (1, one), lambda one: {"a": [one]}, lambda one: {one: 1}]
)
def test_floats_within_others(of: Any) -> None:
    """A list, a tuple or a dict is the same key as one of the same bits."""
    keys = [as_key(exact(of(one))) for one in FLOATS]
    again = [as_key(exact(of(float(str(one))))) for one in FLOATS]
    assert keys == again
    assert len({*keys, *again}) == len(FLOATS)


def test_other_values_are_themselves() -> None:
    """Nothing is made anew of what has no such float."""
    for value in (1, None, "a", (1, 2.5, [0.0])):
        assert exact(value) is value
