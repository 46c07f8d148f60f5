"""Windows of declared rows whose state is larger than memory: arrays in front of a table, and rows as the oracle."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.first_cases import first_of
from tests.unit.windows.conftest import Driver
from tests.unit.windows.test_local_windows_of_declared_rows import IN_ANY_ORDER
from tests.unit.windows.test_windows_of_declared_rows import (
    BOUNDED,
    CUMULATIVE,
    SIZES,
    SLIDING,
    TUMBLING,
    Windows,
    failure,
    plain,
    records_of,
    times_around,
)

from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.types import Row
from penstock.engine.runtime.columns import mixed_contents
from penstock.engine.state.backends.rocksdb.backend import Stores
from penstock.hosts.simulator.stores import MemoryStore


class StoredWindows(Windows):
    """Windows whose state is in a store."""

    def __init__(self, on_columns: bool, assigner: Any = TUMBLING, **settings: Any) -> None:
        super().__init__(on_columns, assigner, **settings)
        self.driver = Driver(self.operator, stores=Stores(MemoryStore, cached_entries=0))

    def advance(self, watermark: int) -> None:
        """Let event time go on."""
        self.driver.until(watermark)

    def take(self) -> list[Any]:
        """Return, and forget, what has been emitted, and how many records were late."""
        found = sorted(repr((list(row), at)) for row, at in self.driver.take())
        return [found, self.driver.late]

    def arrays(self) -> list[int]:
        """Return the windows that have arrays."""
        return sorted(self.operator._caches)


@pytest.mark.parametrize("seed", first_of(1, range(2)))
@pytest.mark.parametrize("wrong", [0.0, 0.002, 0.1])
@pytest.mark.parametrize("lateness_ms", [0, 7])
@pytest.mark.parametrize(
    ("assigner", "aggregates"),
    [(TUMBLING, BOUNDED), (SLIDING, BOUNDED), (CUMULATIVE, IN_ANY_ORDER), (CUMULATIVE, BOUNDED)],
)
def test_results_are_those_of_rows(
    assigner: Any, aggregates: Any, lateness_ms: int, wrong: float, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key would begin again without what its table has, or a value would be another one."""
    if seed:
        # Few windows have more keys than that, others have to be written back in their middle.
        monkeypatch.setattr(mixed_contents, "KEYS_MAX", 10)
    random, watermark = Random(seed), 0
    rows, columns = (
        StoredWindows(on, assigner, lateness_ms=lateness_ms, aggregates=aggregates) for on in (False, True)
    )
    had_arrays = False
    for step in range(12):
        records = records_of(random, random.choice(SIZES), wrong)
        times = times_around(random, watermark, len(records))
        as_rows = random.random() < 0.2
        texts = [failure(lambda: one.push(records, times, as_rows)) for one in (rows, columns)]  # noqa: B023
        had_arrays = had_arrays or bool(columns.arrays())
        watermark += random.choice([0, random.randrange(12)])
        if not any(texts):
            texts = [failure(lambda: one.advance(watermark)) for one in (rows, columns)]  # noqa: B023
        assert texts[0] == texts[1]
        if any(texts):
            # A sum has too many bits.
            assert wrong
            return
        assert rows.take() == columns.take(), step
        if not random.randrange(3):
            columns.operator.prepare_snapshot(step, False)
    assert had_arrays or wrong or seed
    texts = [failure(lambda: one.advance(MAX_TIMESTAMP)) for one in (rows, columns)]  # noqa: B023
    assert texts[0] == texts[1]
    if not any(texts):
        assert rows.take() == columns.take()
        assert columns.driver.is_empty and not columns.arrays()


def stored_keys(windows: StoredWindows) -> int:
    """Return how many keys the first window has in its table."""
    keys = [chr(ord("a") + number) for number in range(26)]
    read = windows.operator._slices.reader(0)
    return 0 if read is None else sum(read(key) is not None for key in keys)


def test_keys_are_written_together_before_a_snapshot() -> None:
    """Each record would be read and written by itself, or a snapshot would lack what is in arrays."""
    windows = StoredWindows(True)
    windows.push(plain(200), [1] * 200)
    assert windows.arrays() == [0] and stored_keys(windows) == 0
    windows.operator.prepare_snapshot(1, False)
    assert windows.arrays() == [0] and stored_keys(windows) == 4
    windows.advance(9)
    assert len(windows.take()[0]) == 4 and windows.driver.is_empty


def test_a_value_that_arrays_would_change_lets_a_window_have_rows() -> None:
    """0.5 in a LONG would be refused, or each chunk would read all keys in vain."""
    windows = StoredWindows(True)
    windows.push([Row(key="a", n=0.5, f=0.5)], [3])
    windows.push([row for row in plain(400) if row.key != "a"], [1] * 300)
    assert windows.arrays() == [0]
    # Now the key is read whose sum is a float.
    windows.push(plain(100), [2] * 100)
    assert windows.arrays() == [] and stored_keys(windows) == 4
    windows.push(plain(100), [2] * 100)
    assert windows.arrays() == []
    windows.push(plain(100), [12] * 100)
    assert windows.arrays() == [10]
