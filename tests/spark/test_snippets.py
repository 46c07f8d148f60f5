"""Every program of the documentation runs as pasted: as a script, in one of the modes.

In the soak it runs in both, one after the other in one folder.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.snippets import PROGRAMS, ROOT, Snippet

from penstock.service.cli.options import program_context
from penstock.service.cli.script import run_script
from penstock.table.planner.errors import PlannerError
from penstock.table.planner.planner import shared_process

pytestmark = pytest.mark.spark
MODES = ("STREAMING", "BATCH")
OF_SERVERS = ("localhost:9092", "localhost:5432", "localhost:6379", "localhost:8080")
WITHOUT_SERVERS = [snippet for snippet in PROGRAMS if not any(one in snippet.program for one in OF_SERVERS)]
"""Those for Kafka are in tests/connectors/test_kafka.py, others in test_postgres.py, test_redis.py and test_http.py."""
SHOWN = "operator 'KeyedProcess' left [] in the state 'items' of key 'ada'"
PRINTED = {
    "class Trend": "bob: 2 clicks by second 20, +0\n",
    "left_outer_join": "[('?', 1), ('Oslo', 3), ('Oslo', 5), ('Zurich', 9)]\n",
    "visits(visit, code)": "[('OSLO', 2), ('ZURICH', 1)]\n",
    "class Buffer": "1\n2\n3\n",
    '"late departures"': "[{'airport': 'JFK', 'late': 2, 'delay': 60}]\n",
    '"late flights"': "{'airport': 'JFK', 'delay': 90}\n",
    '"all years"': "+I[None,90]\n",
    '"flights to Parquet"': "['airport', 'delay']\n",
    'format("rate")': "[0, 1, 2]\n",
    "createDataFrame": "|    JFK| true|    1|\n",
    "partition_bucket_assigner": "|2013-01-02|   JFK|\n",
    "import DeltaSink": "{'airport': 'JFK', 'delay': 90}\n",
    "import IcebergSink": "{'airport': 'LGA', 'delay': 5}\n",
    'file = Path("flights.db")': "[('JFK', 90), ('LGA', 5)]\n",
    "class TableReader": "(1, 'JFK', 90.0)\n",
    "class TableSink": "('JFK', 90.0), ('LGA', 5.0)]\n",
    "class StagedTableSink": "('JFK', 90.0), ('LGA', 5.0)]\n",
    "class Totals": "airport-delay [('",
    "class CountPerMinute": "",
    **dict.fromkeys(("supersteps_max=10", "def smaller", "class Newton"), ""),
    "class Least(ArrayStep)": "",
    "def with_interest": "",
    "class Basket": SHOWN,
    "class Reading": "attic\n",
    "class Plate": "('b ab 12', 3)\n",
    "class Parse": "{'broken': 1}\n",
    '"pairs"': "(cellar,true)\n",
    "def departure": "'().__class__' may not be used in an expression",
    '"squares"': "[0, 1, 4]\n",
    '.uid("counts")': "('be', 2)\n",
    "np.load(path": "((4.0, 1.0), 1.0)\n",
    "joblib.load(": "1: True\n",
    "class ModelClient": "('It is late.', 'statement')\n",
    "class Judge": "('Kennedy', 'late')",
    "or spark://host:7077": "2\n3\n4\n",
    '"one source after another"': "130\n",
    "SELECT airport, COUNT(*) AS flights": "4 rows in set\n",
    "class AirportNames": "| +I |          40 |                        Kennedy |\n",
    "LATERAL TABLE(legs(route))": "| +I |                            EWR |           0 |\n",
    "CREATE VIEW auctions AS": " high   302 5807557361\n",
    'per_user = "SELECT name': "| +I |                    3 |                    1 |\n",
    "class Ranked": "    JFK    1.5\n",
    "order_number BIGINT": "     10          True\n",
    "late.print_schema()": "0     JFK        2    1.0\n",
    "tables.to_data_stream(late)": "JFK 40\n",
    "class SqlTables": "[('JFK', 0.5), ('JFK', 1.0)]\n",
    "TUMBLE(TABLE readings": "| 1970-01-01 00:01:00.000 |                   20 |\n",
    # These assert what they give.
    **dict.fromkeys(("class NamedOrders", "class Watch", "def paid_within_an_hour", "class Unpaid"), ""),
    **dict.fromkeys(("class Price", "three_times", "class Halve"), ""),
    **dict.fromkeys(("def last_three", "class WithoutOutliers", "def moves"), ""),
    **dict.fromkeys(("class Mean", "class Disorder", "def clicks_per_minute", "class FirstOfTheHour"), ""),
    "class Believed": "",
    "class AddNoise": "",
    "class Delayed": "('JFK', 90)\n",
    "class ScoreBatches": "",
    "QueryableStateClient": "",
    'OutputTag("failed")': "KeyError: 'user'",
    "def in_hours": "JFK: 1.5 h",
    "class WeightedMean": "A: 18.0 in 2",
    "NexmarkSource": "920 bids",
    "import pandas\n\nfrom penstock.common import WatermarkStrategy": "('JFK', 10)\n",
    "users_of = StreamFormat.csv_format": "(16, b'bob,unknown')\n",
    "FieldGenerators.sequence": "+I[101,5,None,1000]\n",
    "def paid_amounts": "",
    '"card fraud"': "x: 900.0\n",
    # These assert what they give.
    **dict.fromkeys(("def paid_orders", "class Pause", "def is_slower", "def name_rule", "skipToNext"), ""),
    **dict.fromkeys(("class IsNearby", '"open orders"'), ""),
    # These show settings, and run nothing.
    **dict.fromkeys(("with_idleness", "RETAIN_ON_CANCELLATION", 'on_error="emit"', "click.usr"), ""),
}
"""By a part of the program: a part of what it prints."""
SHOWN_WHOLE = ("9-sql", "dynamic-tables")
"""Pages of one program whose boxes of text are all printed by it."""


def run(snippet: Snippet, mode: str) -> None:
    Path("job.py").write_text(snippet.program)
    with program_context({"execution.runtime-mode": mode}):
        run_script(Path("job.py"), [])


def shown_on(page: str) -> list[str]:
    """Return what a page of one program shows of its output."""
    if page not in SHOWN_WHOLE:
        return []
    (file,) = (ROOT / "docs").rglob(f"{page}.md")
    return re.findall(r"^```text\n(.*?)^```$", file.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def in_turn() -> list[Any]:
    """Return parameters of a test: programs, each in one of the modes; and, in the soak, in one after the other."""
    one = [pytest.param(snippet, [MODES[place % 2]], id=str(snippet)) for place, snippet in enumerate(WITHOUT_SERVERS)]
    both = (pytest.param(each, MODES, id=f"{each} in both modes", marks=pytest.mark.soak) for each in WITHOUT_SERVERS)
    return [*one, *both]


@pytest.mark.parametrize(("snippet", "modes"), in_turn())
def test_a_program_of_the_documentation_runs(
    snippet: Snippet,
    modes: Sequence[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The first thing that a newcomer does would fail."""
    if "from sklearn" in snippet.program:
        pytest.importorskip("sklearn", reason="`make setup` installs it")
    if "TableEnvironment" in snippet.program:
        try:
            shared_process()
        except PlannerError as error:
            pytest.skip(f"Flink's planner can't be had here: {error}")
    monkeypatch.chdir(tmp_path)
    (part,) = [part for name, part in PRINTED.items() if name in snippet.program]
    for mode in modes:
        run(snippet, mode)
        printed = capsys.readouterr().out
        assert part in printed, mode
        assert not [block for block in shown_on(snippet.page) if block not in printed], mode


def test_what_the_page_shows_is_what_the_program_prints() -> None:
    """The reader would look for the mistake in their own copy."""
    assert SHOWN in re.sub(r"\s+", " ", (ROOT / "docs" / "how-to" / "testing.md").read_text(encoding="utf-8"))
