"""Jobs from a stream of events to a webhook, and the programs of the page."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.connectors.http_service import HttpService, events, status
from tests.snippets import PROGRAMS
from tests.spark.jobs import STREAMING, collect, environment
from tests.spark.test_lost_workers import killed, killing
from tests.spark.test_recovery import Slowly
from tests.spark.test_recovery import settings as recovering

from penstock.common import WatermarkStrategy
from penstock.datastream.connectors.http import HttpSink, ServerSentEventSource
from penstock.service.cli.options import program_context
from penstock.service.cli.script import run_script

pytestmark = [pytest.mark.spark, pytest.mark.connectors]
NONE = WatermarkStrategy.no_watermarks()
IN_PAGE = "http://localhost:8080"
EVENTS = 10_000
DEPARTURE = 'id: 1\nevent: departure\ndata: {"to": "JFK"}\n\nid: 2\nevent: delay\ndata: {}\n\n'


def flight_numbers(handler: BaseHTTPRequestHandler) -> None:
    """Some of them, behind the last one that the client has."""
    first = int(handler.headers.get("Last-Event-ID") or -1) + 1
    if handler.command == "POST" or first == EVENTS:
        status(204 if handler.command == "GET" else 200)(handler)
        return
    numbers = range(first, min(first + 3_000, EVENTS))
    events("retry: 10\n" + "".join(f"id: {number}\ndata: {number}\n\n" for number in numbers))(handler)


def test_each_event_though_workers_are_killed(tmp_path: Path) -> None:
    """Events would be lost, or counted twice, when a worker dies; and the webhook miss some."""
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    with HttpService(usual=flight_numbers) as service:
        env = environment(STREAMING, 2, recovering(tmp_path))
        source = ServerSentEventSource(url=f"{service.url}/flights")
        numbers = env.from_source(source, NONE, "flights").map(lambda event: int(event.data)).map(Slowly())
        numbers = numbers.map(killing(deaths, "source", 7_000))
        numbers.sink_to(HttpSink(url=f"{service.url}/hook", batch_size=500)).uid("hook")
        collected = collect(numbers)
        posted = [number for asked in service.asked if asked.body for number in json.loads(asked.body)]

    assert killed(deaths) == ["source"]
    assert sorted(collected) == [*range(EVENTS)]
    assert {*posted} == {*range(EVENTS)}


def test_the_programs_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first thing that a newcomer pastes would fail."""
    monkeypatch.chdir(tmp_path)
    sink, source = [snippet.program for snippet in PROGRAMS if snippet.page == "http"]
    with HttpService() as service:
        Path("sink.py").write_text(sink.replace(IN_PAGE, service.url))
        with program_context({"execution.runtime-mode": "STREAMING"}):
            run_script(Path("sink.py"), [])
        assert sorted(record["airport"] for record in service.records) == ["JFK", "LGA"]
        assert service.asked[0].headers["Authorization"] == "Bearer 1234"
    with HttpService(events(DEPARTURE), usual=status(204)) as service:
        Path("source.py").write_text(source.replace(IN_PAGE, service.url))
        with program_context({"execution.runtime-mode": "STREAMING"}):
            run_script(Path("source.py"), [])
    assert "{'to': 'JFK'}" in capsys.readouterr().out
