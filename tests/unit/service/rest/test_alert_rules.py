"""The alerts of the manual, as Prometheus reads them. `apt install prometheus` brings it, with its tool promtool."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.service.rest.served import Served, report

from penstock.engine.rpc.messages import OperatorReport
from penstock.testing.server_process import LOOPBACK, ServerProcess, free_ports

HOW_TO = Path(__file__).parents[4] / "docs" / "how-to"
RULES = HOW_TO / "alert-rules.yaml"
CASES = Path(__file__).parent / "alert_rules_test.yaml"
PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
_START_SECONDS = 60.0

needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not on PATH: apt install prometheus")


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return list(group["rules"])


def metrics_in_rules() -> set[str]:
    return {name for rule in rules() for name in re.findall(r"flink_\w+", rule["expr"])}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A job with a source of Kafka's gauges, and with two samples."""
    one = Served(tmp_path)
    source = OperatorReport("in", 0, 9, 0, 5_000, {"pendingRecords": 7, "watermarkLag": 400})
    for seconds in (1, 3):
        reports = [report(0, 0, seconds, 100), report(1, 0, seconds, 100)]
        reports[0].operators[:] = [source]
        one.job.metrics.update(reports)
        one.entry.meter.sample(seconds)
    yield one
    one.endpoint.close()


def test_each_metric_in_the_rules_is_exported(served: Served) -> None:
    """An alert on a metric that does not exist never fires."""
    text = served.ask("/metrics")[2].decode()
    exported = {family.name for family in text_string_to_metric_families(text)}
    assert len(metrics_in_rules()) > 8 and metrics_in_rules() <= exported
    # The gauges of sources are played above: tests/connectors/test_kafka.py and tests/e2e/test_rest.py read real ones.
    files = [file for name in ("*source.py", "*reader.py") for file in (HOW_TO.parents[1] / "src").rglob(name)]
    sources = "".join(file.read_text(encoding="utf-8") for file in files)
    assert 'gauge("pendingRecords"' in sources and 'gauge("watermarkLag"' in sources


def test_the_page_and_the_cases_know_each_rule() -> None:
    """A user could not read what an alert means, or an alert would be untested."""
    names = [rule["alert"] for rule in rules()]
    page = (HOW_TO / "alerts.md").read_text(encoding="utf-8")
    assert not [name for name in names if f"| {name} |" not in page]
    checks = [check for case in yaml.safe_load(CASES.read_text())["tests"] for check in case["alert_rule_test"]]
    assert {check["alertname"] for check in checks if "exp_alerts" in check} == set(names)
    assert {check["alertname"] for check in checks if "exp_alerts" not in check} == set(names)


@needs_promtool
def test_each_alert_fires_when_it_should_and_not_otherwise() -> None:
    """A wrong expression wakes the user for nothing, or lets the job stand still all night."""
    for command in (["check", "rules", RULES], ["test", "rules", CASES]):
        done = subprocess.run([str(PROMTOOL), *map(str, command)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not on PATH: apt install prometheus")
def test_prometheus_scrapes_a_job_and_evaluates_the_rules(served: Served, tmp_path: Path) -> None:
    """The scrape configuration of the manual would be refused, or the rules find nothing in what it scrapes."""
    (tmp_path / "token").write_text(served.endpoint.token)
    target = {"targets": [served.host]}
    scraped = {
        "job_name": "penstock",
        "authorization": {"credentials_file": str(tmp_path / "token")},
        "static_configs": [target],
    }
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [scraped],
    }
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    address = f"{LOOPBACK}:{free_ports(1)[0]}"
    options = ("--config.file=prometheus.yml", "--storage.tsdb.path=series", f"--web.listen-address={address}")
    server = ServerProcess("prometheus", [str(PROMETHEUS), *options], tmp_path / "prometheus.log")

    def asked(path: str) -> Any:
        with urllib.request.urlopen(f"http://{address}/api/v1/{path}", timeout=10) as answer:
            return json.load(answer)["data"]

    def healthy() -> bool:
        try:
            (group,) = asked("rules")["groups"]
        except OSError:
            return False
        return {rule["health"] for rule in group["rules"]} == {"ok"} and bool(asked("query?query=up%3D%3D1")["result"])

    try:
        deadline = time.monotonic() + _START_SECONDS
        while not healthy():
            assert time.monotonic() < deadline, (tmp_path / "prometheus.log").read_text()
        (group,) = asked("rules")["groups"]
        assert [rule["name"] for rule in group["rules"]] == [rule["alert"] for rule in rules()]
        for name in metrics_in_rules():
            assert asked(f"query?query={urllib.parse.quote(name)}")["result"], f"{name} was not scraped"
    finally:
        server.end()
