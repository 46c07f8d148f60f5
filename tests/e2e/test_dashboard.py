"""The pages of the dashboard, in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.browser import CHROMIUM, Browser
from tests.e2e.dashboard_process import DashboardProcess
from tests.unit.service.dispatcher.played_cluster import PlayedCluster
from tests.unit.service.rest.served import Served, pattern_plan, serve_pages_job

from penstock.service.rest.job_sampling import sample_of

pytest.importorskip("nicegui", reason="the extra dashboard is not installed")
pytestmark = [pytest.mark.e2e, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")]

JOB = "/job/id"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A job with a pattern that has failed once, and taken checkpoints; its figures are the same each time."""
    one = serve_pages_job(tmp_path, "<img src=x onerror='alert(1)'>", "<b>a failure</b>", pattern_plan())
    (one.logs / "driver.log").write_text("a line of the driver\n")
    for seconds in (2, 4):
        one.entry.history.add(sample_of(one.entry, seconds * 1_000), seconds)
    yield one
    one.endpoint.close()


@pytest.fixture
def dashboard(served: Served, tmp_path: Path) -> Iterator[DashboardProcess]:
    one = DashboardProcess(tmp_path, served.host, served.endpoint.token)
    yield one
    one.close()
    assert not one.token_file.exists()


def answers(browser: Browser, button: str, question: str, answer: str) -> None:
    """Click a button, read what it asks, and answer."""
    browser.click(button)
    browser.wait_for(question)
    browser.click(answer)
    browser.wait_for_none(question)


def is_dark(browser: Browser) -> bool:
    return bool(browser.evaluate("document.body.classList.contains('body--dark')"))


def test_all_pages_show_what_rest_says_and_nothing_leaves_the_machine(
    served: Served, dashboard: DashboardProcess
) -> None:
    """A page with an error shows nothing; one with another figure than REST's misleads; one that loads is watched."""
    browser = Browser()
    try:
        browser.log_in(dashboard.url, dashboard.token)
        browser.wait_for("<img src=x onerror='alert(1)'>", "running", "100/s", "2 of 2")
        assert not is_dark(browser), "Chromium asks for light pages"
        for mode in ("dark", "light", "dark"):
            browser.click(mode)
            browser.open(f"{dashboard.url}{JOB}")
            browser.wait_for("Collection Source")
            assert is_dark(browser) == (mode == "dark"), "the choice holds for the next page"
        for vertex in served.get("/jobs/id")["vertices"]:
            asked = f"/jobs/id/vertices/{vertex['id']}/subtasks/metrics?get=numRecordsInPerSecond,busyTimeMsPerSecond"
            busy, rate = served.get(asked)
            browser.wait_for(vertex["name"], f"in {rate['sum']:.0f}/s", f"{busy['max'] / 10:.0f} %")
        browser.evaluate("[...document.querySelectorAll('.graph.along [data-vertex]')].pop().dispatchEvent("
                         "new MouseEvent('click', {bubbles: true}))")  # fmt: skip
        browser.wait_for("level-1-slot-0", "a: kind == 1", "followed by", "within 5 s from first to last event",
                         "mine.seen 300")  # fmt: skip
        browser.click("checkpoints")
        newest = served.get("/jobs/id/checkpoints")["latest"]["completed"]
        browser.wait_for("3 completed", newest["external_path"], "start delay", f"Checkpoint {newest['id']}")
        assert browser.evaluate("document.querySelectorAll('.stack').length") == 2 * 3, "durations and sizes"
        browser.evaluate("document.querySelector('.stack').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
        browser.wait_for("Checkpoint 1")
        for tab, shown in (
            ("charts", "Records per second"),
            ("flame graph", "rest.flamegraph.enabled=true"),
            ("latency", "metrics.latency.interval"),
            ("exceptions", "<b>a failure</b>"),
            ("state", "operator · state"),
            ("logs", "a line of the driver"),
        ):
            browser.click(tab)
            browser.wait_for(shown)
        answers(browser, "Cancel", "Uncommitted output is lost.", "No")
        assert not served.job.is_cancelled, "it asks first"
        answers(browser, "Cancel", "Uncommitted output is lost.", "Cancel job")
        browser.wait_for("The job is being canceled.")
        assert served.job.is_cancelled
        assert browser.failures == []
        # The socket of the page, and pictures within it, have no host that could be another one.
        hosts = {found[1] for url in browser.requested if (found := re.match(r"\w+://([^/]+)", url))}
        assert hosts == {dashboard.url.removeprefix("http://")}
    finally:
        browser.close()


@pytest.mark.soak
def test_a_cluster_is_seen_on_a_phone_with_jobs_that_wait_and_none_is_as_high_as_the_page(tmp_path: Path) -> None:
    """A queue would be two jobs and a lot of nothing; a job that waits, a red line about what can't be asked."""
    cluster = PlayedCluster(tmp_path)
    dashboard = DashboardProcess(tmp_path, cluster.client.url.removeprefix("http://"), cluster.server.token)
    browser = Browser()
    try:
        browser.resize(390, 844)
        browser.log_in(dashboard.url, dashboard.token)
        browser.wait_for("7 of 8", "waits for 1 slot: 1 of 8 are free")
        heights = browser.evaluate("[...document.querySelectorAll('tbody tr')].map(row => row.offsetHeight)")
        assert len(heights) == 5 and max(heights) < 340, heights
        browser.open(f"{dashboard.url}/job/dddddddd")
        browser.wait_for("The job waits for 1 slot: 1 of 8 are free.", "Cancel")
        assert "Savepoint" not in browser.text() and "can't be asked" not in browser.text()
        for tab in ("charts", "subtasks", "flame graph", "checkpoints", "latency", "exceptions", "state", "logs"):
            browser.open(f"{dashboard.url}/job/aaaaaaaa1111?tab={tab}")
            browser.wait_for("busy")
            assert browser.evaluate("document.documentElement.scrollWidth") <= 390, tab
        assert browser.failures == []
    finally:
        browser.close()
        dashboard.close()
        cluster.close()


@pytest.mark.soak
def test_savepoints_and_rescaling_are_asked_for_once_and_narrow_pages_do_not_scroll(
    served: Served, dashboard: DashboardProcess
) -> None:
    """A slip of the finger on a phone would stop a job."""
    browser = Browser()
    try:
        browser.log_in(dashboard.url, dashboard.token)
        browser.wait_for("running")
        browser.resize(390, 844)
        browser.open(f"{dashboard.url}{JOB}")
        browser.wait_for("Collection Source", "Savepoint")
        assert browser.evaluate("document.documentElement.scrollWidth") <= 390
        answers(browser, "Rescale", "Change the number of subtasks?", "Rescale job")
        assert served.job.rescales == [], "nothing was changed"
        with ThreadPoolExecutor(1) as pool:
            browser.click("Stop")
            browser.wait_for("Its output up to the savepoint is committed.")
            browser.type("input", "/savepoints")
            browser.click("Stop job")
            pool.submit(_completes, served.job).result(60)
        browser.wait_for("Savepoint: /savepoints/1")
        (directory, stop, drain, _) = served.job.savepoints[0]
        assert (directory, stop, drain) == ("/savepoints", True, False)
        assert browser.failures == []
    finally:
        browser.close()


def _completes(job: Any) -> None:
    while not job.savepoints:
        pass
    job.savepoints[0][3].set_result("/savepoints/1")
