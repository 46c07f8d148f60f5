"""The page at the address of an endpoint."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.unit.service.dispatcher.played_cluster import PlayedCluster
from tests.unit.service.rest.served import serve_pages_job

from penstock.service.cluster.running_dashboard import announce_dashboard


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Dashboards of this machine's user are none of these tests'."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_it_shows_the_jobs_and_leads_to_the_dashboard(tmp_path: Path) -> None:
    """The address that `penstock run` prints would show nothing, or a second page of a job that knows less."""
    served = serve_pages_job(tmp_path, "<b>orders</b>", "a failure")
    try:
        announce_dashboard("http://127.0.0.1:8181", os.environ)
        status, headers, body = served.ask("/")
        page = body.decode()
        assert status == 200 and headers["content-type"].startswith("text/html")
        assert '<a href="http://127.0.0.1:8181/job/id">&lt;b&gt;orders&lt;/b&gt;</a>' in page
        assert "running" in page and "pip install" not in page and 'href="docs"' in page
        assert served.ask("/page.css")[1]["content-type"].startswith("text/css")
        assert "<script" not in page and b"://" not in served.ask("/page.css")[2]
    finally:
        served.endpoint.close()


def test_without_a_dashboard_it_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user would not know that there is one, nor that a package is missing."""
    served = serve_pages_job(tmp_path, "orders", "a failure")
    try:
        monkeypatch.setitem(sys.modules, "nicegui", None)
        page = served.ask("/")[2].decode()
        assert "orders" in page and "/job/id" not in page
        assert "penstock-streams[dashboard]" in page and "penstock dashboard" in page and "penstock top" in page
    finally:
        served.endpoint.close()


def test_the_page_of_a_cluster_shows_its_jobs(tmp_path: Path) -> None:
    """A cluster's address would show a page without jobs."""
    cluster = PlayedCluster(tmp_path)
    try:
        page = cluster.client.send("GET", "/").decode()
        assert "waits" in page and "initializing" in page and page.count("<tr>") > 4
    finally:
        cluster.close()
