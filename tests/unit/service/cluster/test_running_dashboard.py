"""Dashboards that programs name."""

from __future__ import annotations

from pathlib import Path

import msgspec

from penstock.service.cluster.running_dashboard import RunningDashboard, announce_dashboard, dashboard_urls


def test_a_dashboard_is_named_while_its_process_lives(tmp_path: Path) -> None:
    """`penstock run` would name no page, or one that is gone."""
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    assert dashboard_urls(environ) == []
    file = announce_dashboard("http://127.0.0.1:8181", environ)
    killed = file.with_name("0.json")
    killed.write_bytes(msgspec.json.encode(RunningDashboard(2**22 + 1, "http://127.0.0.1:1", "long ago")))
    (file.parent / "half.json").write_bytes(b"{")
    assert dashboard_urls(environ) == ["http://127.0.0.1:8181"]
    assert not killed.exists()
    file.unlink()
    assert dashboard_urls(environ) == []
