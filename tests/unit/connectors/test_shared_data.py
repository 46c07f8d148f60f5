"""Real files with known counts."""

from pathlib import Path

import pytest

from penstock.connectors.files.source import FileSource, StreamFormat
from penstock.testing.conformance.source import SourceRun, read_all

DATA = Path(__file__).parents[4] / "shared" / "data"
JSON_LINES = StreamFormat.json_lines_format()


def source(name, file_format=JSON_LINES):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"the shared data set {name} is not on this machine")
    return FileSource.for_record_stream_format(file_format, path).build()


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("zeek-wrccdc/dns.json.gz", 53_615),
        ("zeek-wrccdc/ssl.json.gz", 49_474),
        ("wikipedia-edits/wikiticker-2015-09-12-sampled.json.gz", 39_244),
    ],
)
def test_json_counts(name, count):
    """An error in one record of fifty thousand would not appear in small examples."""
    assert len(read_all(source(name), 1)) == count


def test_wikipedia_sums():
    """Values could be wrong although their number is right."""
    edits = read_all(source("wikipedia-edits/wikiticker-2015-09-12-sampled.json.gz"), 1)
    assert sum(edit["added"] for edit in edits) == 9_385_573
    assert len({edit["user"] for edit in edits}) == 10_531


def test_ships():
    """Quoted quotes, in 25 of 99,999 records, would break parsing."""
    types = {"MMSI": int, "LAT": float, "SOG": float}
    file_format = StreamFormat.csv_format(types=types)
    ships = read_all(source("ais-us-2022/ais_2022-01-03_first-99999.csv.gz", file_format), 1)
    assert len(ships) == 99_999
    assert len({ship["MMSI"] for ship in ships}) == 10_631
    assert sum('"' in ship["VesselName"] for ship in ships) == 25


def test_going_on_in_the_middle_of_a_gzip_file():
    """A restart from a checkpoint within a compressed file would continue at the wrong record."""
    run = SourceRun(source("zeek-wrccdc/dns.json.gz"), 1)
    run.start()
    before = run.read_polls(30, 1000)
    resumed = SourceRun(source("zeek-wrccdc/dns.json.gz"), 1)
    resumed.restore(run.snapshot())
    assert len(before) + len(resumed.read_to_end(777)) == 53_615
