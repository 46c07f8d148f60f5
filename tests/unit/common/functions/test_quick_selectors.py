"""Key selectors that read one field are called without Python's frames, and give what they gave before."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from operator import attrgetter, itemgetter
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.common.errors import UserFunctionError
from penstock.common.functions.quick_selectors import quick_selector
from penstock.datastream import KeySelector
from penstock.engine.runtime.chunks import Rows
from penstock.testing import OperatorHarness

RECORD = SimpleNamespace(user="ada", x=SimpleNamespace(y=1))


def by_user(record: Any) -> Any:
    """By the name of the user."""
    return record.user


class ByUser(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value["user"]


class ByItsOwn(KeySelector):
    x = 7

    def get_key(self, value: Any) -> Any:
        return self.x


QUICK: list[tuple[Callable[[Any], Any], Any, type]] = [
    (lambda pair: pair[0], ("ada", 1), itemgetter),
    (lambda pair: pair[-1], ("ada", 1), itemgetter),
    (lambda record: record["user"], {"user": "ada"}, itemgetter),
    (lambda record: record.user, RECORD, attrgetter),
    (by_user, RECORD, attrgetter),
    (ByUser().get_key, {"user": "ada"}, itemgetter),
]
OTHERS: list[tuple[Callable[[Any], Any], Any]] = [
    (lambda pair: pair, 1),
    (lambda pair: 5, 1),
    (lambda pair: (pair[0], pair[1]), (1, 2)),
    (lambda pair: pair[0][1], ((1, 2), 3)),
    (lambda *pair: pair[0], 1),
    (lambda pair, other=(9, 8): other[0], (1, 2)),
    (lambda pair, *, at=(3,): at[0], (1, 2)),
    (lambda record: record.x.y, RECORD),
    (lambda record: RECORD.user, 1),
    (lambda record: record[0] + 1, (1, 2)),
    (ByItsOwn().get_key, 1),
    (len, (1, 2)),
    (str, 1),
    (itemgetter(1), (1, 2)),
]


@pytest.mark.parametrize(("select", "record", "kind"), QUICK)
def test_a_selector_of_one_field(select: Callable[[Any], Any], record: Any, kind: type) -> None:
    """A keyed stream would take a tenth longer for each record, or send records to other subtasks."""
    quick = quick_selector(select)
    assert type(quick) is kind
    assert quick(record) == select(record)
    assert pickle.loads(pickle.dumps(quick))(record) == select(record)


@pytest.mark.parametrize(("select", "record"), OTHERS)
def test_any_other_selector(select: Callable[[Any], Any], record: Any) -> None:
    """Keys would be other ones than the function gives."""
    quick = quick_selector(select)
    assert quick is select or quick == select
    assert quick(record) == select(record)


@pytest.mark.parametrize("record", [(), 7, None])
def test_an_error_names_the_line_of_the_selector(record: Any) -> None:
    """The user would look for the line that failed: a getter has none."""
    harness = OperatorHarness(lambda s: s.key_by(lambda pair: pair[0]).reduce(lambda a, b: a))
    with harness, pytest.raises(UserFunctionError) as raised:
        harness.operator.process(Rows([("a", 1), record]))
    text = str(raised.value)
    assert "key selector" in text and f'File "{__file__}", line' in text and "pair[0]" in text
    assert f"value {record!r}" in text
