"""The page that an endpoint serves at /, in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.browser import CHROMIUM, Browser
from tests.e2e.dashboard_process import DashboardProcess
from tests.unit.service.rest.served import serve_pages_job

from penstock.service.cluster.running_dashboard import announce_dashboard

pytest.importorskip("nicegui", reason="the extra dashboard is not installed")
pytestmark = [pytest.mark.e2e, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")]


def test_the_page_of_a_job_leads_to_the_dashboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with the address of a job would not get to its page: browsers report a link from another port."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    name = "<img src=x onerror='alert(1)'>"
    served = serve_pages_job(tmp_path, name, "a failure")
    dashboard = DashboardProcess(tmp_path, served.host, served.endpoint.token)
    browser = Browser()
    try:
        browser.log_in(served.endpoint.address.url, served.endpoint.token)
        browser.wait_for(name, "running", "penstock dashboard")
        announce_dashboard(dashboard.url)
        browser.open(served.endpoint.address.url)
        browser.wait_for("The dashboard shows")
        browser.click(name)
        browser.wait_for("token")
        browser.evaluate(f"document.querySelector('input').value = '{dashboard.token}'")
        browser.evaluate("document.querySelector('form').submit()")
        browser.wait_for("Collection Source", "Savepoint")
        assert browser.evaluate("location.pathname") == "/job/id"
        browser.open(f"{served.endpoint.address.url}/docs")
        browser.wait_for("GET /jobs/{jobid}/state/entries", "Keyed state of one key")
        browser.evaluate("document.querySelector('#paths details').open = true")
        browser.evaluate("document.querySelector('#paths details button').click()")
        browser.wait_for("200", "<!doctype html>")
        assert [failure for failure in browser.failures if "favicon" not in failure] == []
    finally:
        browser.close()
        dashboard.close()
        served.endpoint.close()
