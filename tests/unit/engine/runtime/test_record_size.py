"""The size of a record that leaves a task is limited, and that of a buffer of several is not."""

from __future__ import annotations

import pytest
from tests.unit.engine.runtime.test_output import Sent

from penstock.common.errors import UserFunctionError
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.network.buffer import Watermark


@pytest.mark.parametrize(
    "before", [[], ["small"] * 3, [None]], ids=["alone", "behind small ones", "behind a watermark"]
)
def test_a_record_that_is_too_large_is_an_error_that_says_what_to_do(before: list) -> None:
    """Spark's JVM would take nine times the size of one value, and keep that for as long as it lives."""
    sent = Sent(receivers=2).with_operator()
    sent.edge.sender.record_bytes_max = 2_000_000
    sent.edge.emit(Rows([b"x" * 1_900_000]))
    sent.edge.flush()
    assert len(sent.rows()) == 1
    if before == [None]:
        sent.edge.element(Watermark(5))
    with pytest.raises(UserFunctionError) as raised:
        sent.edge.emit(Rows([value for value in before if value] + [b"x" * 2_000_001]))
        sent.edge.flush()
    text = str(raised.value)
    for part in ("'my map'", "subtask 2 of 2", "(bytes) has 2,000,0", "2,000,000", "penstock.network.max-record-size"):
        assert part in text, text
    assert len(text) < 1_000, "not with the value"


def test_many_records_together_may_be_larger_than_one_may_be() -> None:
    """A chunk of records that are all within the limit would fail the job."""
    sent = Sent(receivers=2).with_operator()
    sent.edge.sender.record_bytes_max = 2_000_000
    sent.edge.emit(Rows([b"x" * 900_000] * 3 + [b"y" * 900_000] * 3))
    sent.edge.flush()
    sent.edge.element(Watermark(5))
    sent.edge.emit(Rows([b"z" * 1_100_000], [1]))
    sent.edge.emit(Rows([b"z" * 1_100_000]))
    sent.edge.flush()
    assert sum(len(header_and[0]) for header_and in sent.segments() if isinstance(header_and, tuple)) == 8
