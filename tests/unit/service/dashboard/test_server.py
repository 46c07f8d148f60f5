"""The command without NiceGUI, and the sockets of pages."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.service.cli.main import app
from penstock.service.rest.guard import Guard

TOKEN = "0f"
HEADERS = {"host": "127.0.0.1:1", "origin": "http://127.0.0.1:1", "cookie": f"c={TOKEN}"}


def test_without_niceguis_package_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its users would see a traceback about a module they have never heard of."""
    monkeypatch.setitem(sys.modules, "nicegui", None)
    done = CliRunner().invoke(app, ["dashboard"])
    assert done.exit_code == 1
    assert "pip install 'penstock-streams[dashboard]'" in done.stderr and "penstock top" in done.stderr


def test_an_address_without_a_token_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Pages would come that never show anything."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PENSTOCK_REST_TOKEN", raising=False)
    done = CliRunner().invoke(app, ["dashboard", "localhost:1"])
    assert done.exit_code == 1 and "PENSTOCK_REST_TOKEN" in done.stderr


@pytest.mark.parametrize(
    ("more", "opened"),
    [
        ({}, True),
        ({"cookie": "c=0"}, False),
        ({"cookie": ""}, False),
        ({"origin": "https://evil.example"}, False),
        ({"origin": None}, False),
        ({"host": "evil.example:1", "origin": "http://evil.example:1"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
    ],
)
def test_sockets_are_opened_by_our_own_pages_only(more: dict[str, str | None], opened: bool) -> None:
    """Any page in the user's browser could open one, and cancel jobs by it: browsers let sockets go anywhere."""
    reached: list[str] = []
    sent: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["path"])

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    headers = [(k.encode(), v.encode()) for k, v in (HEADERS | more).items() if v is not None]
    scope = {"type": "websocket", "path": "/_nicegui_ws/socket.io/", "headers": headers, "query_string": b""}
    asyncio.run(Guard(application, TOKEN, "c")(scope, receive, send))
    assert (reached, sent) == ((["/_nicegui_ws/socket.io/"], []) if opened else ([], ["websocket.close"]))
