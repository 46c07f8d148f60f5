"""Nexmark's q10 on Spark: bids in folders by day and minute are those that Flink gives."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote

import pytest
from benchmarks.nexmark_sql import QUERIES, VIEWS, events_table
from tests.spark.jobs import environment
from tests.table.table_tests import need_planner
from tests.table.test_nexmark_facts import FACTS, Digest

from penstock.common.types import Row
from penstock.table import StreamTableEnvironment
from penstock.table.logical_types import parse

pytestmark = [pytest.mark.spark, pytest.mark.thorough]
EVENTS = 50_000
QUERY = QUERIES["q10"]


def test_bids_are_written_into_partitions(tmp_path: Path) -> None:
    """Bids would be missing, doubled, or in the folder of another minute."""
    need_planner()
    tables = StreamTableEnvironment.create(environment())
    rate = str(FACTS[str(EVENTS)]["rate"])
    events = {"events.num": str(EVENTS), "first-event.rate": rate, "next-event.rate": rate}
    options = {
        "connector": "filesystem",
        "path": str(tmp_path / "bids"),
        "format": "json",
        "sink.partition-commit.policy.kind": "success-file",
    }
    shown = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    partitions = ", ".join(QUERY.partitions)
    for statement in (
        events_table({"connector": "nexmark", **events}),
        *VIEWS,
        f"CREATE TABLE bids ({QUERY.columns}) PARTITIONED BY ({partitions}) WITH ({shown})",
    ):
        tables.execute_sql(statement)
    tables.execute_sql(f"INSERT INTO bids {QUERY.sql}").wait()
    digest = Digest(parse(f"ROW<{QUERY.columns}>"), QUERY)
    folders = list((tmp_path / "bids").glob("dt=*/hm=*"))
    for folder in folders:
        names = [unquote(part.partition("=")[2]) for part in (folder.parent.name, folder.name)]
        assert (folder / "_SUCCESS").exists()
        for part in folder.glob("part-*"):
            for line in part.read_text(encoding="utf-8").splitlines():
                bid = json.loads(line)
                time = datetime.fromisoformat(bid["dateTime"])
                digest.accept(0, [Row(bid["auction"], bid["bidder"], bid["price"], time, bid["extra"], *names)])
    assert folders
    assert digest.facts() == FACTS[str(EVENTS)]["queries"]["q10"]
