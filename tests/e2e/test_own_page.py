"""The page that an endpoint serves at /, in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.browser import CHROMIUM, Browser
from tests.unit.engine.jobmaster.played_job import plan
from tests.unit.service.rest.served import PlayedJob, Served, report

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")]


def test_a_job_is_watched_and_cancelled_on_its_page(tmp_path: Path) -> None:
    """A user without Flink's pages would see nothing in his browser; or a slip of the hand would end his job."""
    served = Served(tmp_path, PlayedJob(plan()))
    played = served.job.played
    played.graph.name = "<img src=x onerror='alert(1)'>"
    played.runs().fails(RuntimeError("<b>a failure</b>"))
    played.restarts().runs()
    played.takes_checkpoint()
    played.waits(1_000)
    for seconds in (1, 3):
        served.job.metrics.update([report(v.id, 0, seconds, seconds * 100) for v in played.graph.vertices])
        served.entry.meter.sample(seconds)
    browser = Browser()
    try:
        browser.log_in(served.endpoint.address.url, served.endpoint.token)
        browser.wait_for("Collection Source", "Reduce -> Print", "in 100/s", "33 %", "<b>a failure</b>", "completed")
        browser.wait_for("<img src=x onerror='alert(1)'>")
        browser.picture(tmp_path / "page.png")
        assert browser.evaluate("document.querySelectorAll('.subtasks button:disabled').length") == 2, "none has fewer"
        for answer in ("no", "yes"):
            browser.click("+")
            browser.wait_for("with 2 subtasks?")
            assert served.job.rescales == [], "it asks first"
            browser.evaluate(f"document.querySelector('#ask button[value={answer}]').click()")
        browser.wait_for("The job is being rescaled.")
        assert served.job.rescales == [{1: 2}]
        for answer in ("no", "yes"):
            browser.click("Cancel")
            browser.wait_for("Uncommitted output is lost.")
            assert not served.job.is_cancelled, "it asks first"
            browser.evaluate(f"document.querySelector('#ask button[value={answer}]').click()")
        browser.wait_for("The job is being canceled.")
        assert served.job.is_cancelled
        browser.open(f"{served.endpoint.address.url}/docs")
        browser.wait_for("GET /jobs/{jobid}/state/entries", "Keyed state of one key")
        browser.evaluate("document.querySelector('#paths details').open = true")
        browser.evaluate("document.querySelector('#paths details button').click()")
        browser.wait_for("200", "No job runs yet.")
        assert [failure for failure in browser.failures if "favicon" not in failure] == []
    finally:
        browser.close()
        served.endpoint.close()
