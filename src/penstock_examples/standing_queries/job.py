"""The program: flights of New York, and queries about them that come and go.

    python -m penstock_examples.standing_queries.job queries.jsonl

Each line of the file is what an analyst sends: see queries.py. A socket or a topic in place of the file makes the
queries come while it runs.
"""

from __future__ import annotations

import sys
from typing import Any

from penstock.common import Duration, WatermarkStrategy
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock_examples.flights.flights import read_reports
from penstock_examples.flights.job import counts_by_feed
from penstock_examples.flights.records import HOUR_MS
from penstock_examples.flights.source import FlightSource, watermark_strategy
from penstock_examples.standing_queries.answering import FAILURES, QUERIES, AnswerQueries, ParseQueries


def answers(reports: DataStream[Any], lines: DataStream[str]) -> tuple[DataStream[Any], DataStream[Any]]:
    """Return the answers, and the reasons why queries are not answered."""
    # Queries have no event time: after a moment without one, their stream no longer holds back the watermark.
    untimed = WatermarkStrategy.no_watermarks().with_idleness(Duration.of_millis(100))
    queries = lines.assign_timestamps_and_watermarks(untimed).process(ParseQueries()).uid("parse")
    answered = (
        reports.key_by(lambda report: report.airport)
        .connect(queries.broadcast(QUERIES))
        .process(AnswerQueries())
        .uid("answer")
    )
    return answered, queries.get_side_output(FAILURES).union(answered.get_side_output(FAILURES))


def main(path: str) -> None:
    """Answer the queries in a file about the first 20,000 reports of the year."""
    env = StreamExecutionEnvironment.get_execution_environment()
    source = FlightSource(counts_by_feed(read_reports().first(20_000)))
    reports = env.from_source(source, watermark_strategy(6 * HOUR_MS), "flights").uid("flights")
    file = FileSource.for_record_stream_format(StreamFormat.text_line_format(), path).build()
    lines = env.from_source(file, WatermarkStrategy.no_watermarks(), "queries").uid("queries").set_parallelism(1)
    answered, failures = answers(reports, lines)
    answered.print("answer")
    failures.print("failed")
    env.execute("standing queries")


if __name__ == "__main__":
    main(sys.argv[1])
