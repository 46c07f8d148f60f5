"""When a partition of files is due, as Flink's triggers have it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from penstock.table.connectors.partition_commit import PartitionCommit

HOUR = 3_600_000


def commit(*partitions: str, by_time: bool = True, delay_ms: int = 0, **more: str) -> PartitionCommit:
    given = {"pattern": None, "form": None, "zone": "UTC", **more}
    return PartitionCommit(partitions, by_time=by_time, delay_ms=delay_ms, success_file="_SUCCESS", **given)  # type: ignore[arg-type]


def ms(*parts: int) -> int:
    return round(datetime(*parts, tzinfo=UTC).timestamp() * 1000)  # type: ignore[arg-type,misc]


def test_the_watermark_has_to_pass_the_time_and_the_delay() -> None:
    """A row with just that time may still come: it belongs to the next partition, and its writer is not done."""
    one = commit("day", delay_ms=HOUR)
    assert one.due_ms({"day": "2024-01-31"}, 5) == ms(2024, 1, 31, 1) + 1


def test_by_the_clock_a_partition_without_delay_is_due_at_once() -> None:
    """The success file would come a checkpoint later than Flink's."""
    assert commit("day", by_time=False).due_ms({"day": "x"}, 5) == 5
    assert commit("day", by_time=False, delay_ms=10).due_ms({"day": "x"}, 5) == 16


@pytest.mark.parametrize(
    ("partitions", "values", "more", "expected"),
    [
        (("day", "hour"), {"day": "2024-01-31", "hour": "11"}, {}, (2024, 1, 31)),
        (("at",), {"at": "2024-1-31 1:02:03"}, {}, (2024, 1, 31, 1, 2, 3)),
        (("at",), {"at": "2024-01-31 01:02:03.5"}, {}, (2024, 1, 31, 1, 2, 3, 500_000)),
        (
            ("day", "daytime"),
            {"day": "2024-01-31", "daytime": "7"},
            {"pattern": "$day $daytime:00:00"},
            (2024, 1, 31, 7),
        ),
        (("day",), {"day": "20240131"}, {"form": "yyyyMMdd"}, (2024, 1, 31)),
        (("day",), {"day": "2024-01-31"}, {"zone": "Asia/Shanghai"}, (2024, 1, 30, 16)),
    ],
)
def test_the_time_of_a_partition(
    partitions: tuple[str, ...], values: dict[str, str], more: dict[str, str], expected: tuple[int, ...]
) -> None:
    """A partition would never be committed, or before its rows are there. Without a pattern its first value counts."""
    assert commit(*partitions, **more).due_ms(values, 0) == ms(*expected) + 1
