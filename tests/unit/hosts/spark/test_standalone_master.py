"""penstock connects to the master of a standalone cluster before it starts Spark."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common.errors import MasterUnreachableError
from penstock.hosts.spark.driver.standalone_master import reach, slot_holders

STATE: dict[str, Any] = {
    "url": "spark://127.0.0.1:7077",
    "status": "ALIVE",
    "workers": [
        {"state": "ALIVE", "cores": 4, "coresused": 4, "coresfree": 0, "memoryfree": 512},
        {"state": "ALIVE", "cores": 4, "coresused": 2, "coresfree": 2, "memoryfree": 1024},
        {"state": "DEAD", "cores": 4, "coresused": 4, "coresfree": 0, "memoryfree": 0},
    ],
    "activeapps": [
        {"id": "app-1", "name": "orders", "cores": 6, "user": "ada"},
        {"id": "app-2", "name": "waits", "cores": 0, "user": "bob"},
    ],
}


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(STATE).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def page_port() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield str(server.server_port)
        server.shutdown()


def test_a_wait_for_a_master_is_shown_once(caplog: pytest.LogCaptureFixture) -> None:
    """Five seconds would pass in silence."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = listener.getsockname()[1]
    with pytest.raises(MasterUnreachableError):
        reach(f"spark://127.0.0.1:{closed}", timeout_s=0.3)
    assert caplog.messages == [f"waiting for the Spark master: 127.0.0.1:{closed}: Connection refused"]


def test_a_master_that_does_not_answer_is_named_with_the_reason() -> None:
    """Spark would try for a minute and print hundreds of lines of Java."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = listener.getsockname()[1]
    with pytest.raises(
        MasterUnreachableError, match=rf"127\.0\.0\.1:{closed}: Connection refused.*correct spark\.master"
    ):
        reach(f"spark://127.0.0.1:{closed}", timeout_s=0)
    with pytest.raises(MasterUnreachableError, match="spark://HOST:PORT"):
        reach("spark://127.0.0.1", timeout_s=0)


def test_the_first_master_that_answers_is_enough() -> None:
    """A cluster with a master in reserve would be refused because one of them is down."""
    with socket.create_server(("127.0.0.1", 0)) as closed, socket.create_server(("127.0.0.1", 0)) as listener:
        ports = closed.getsockname()[1], listener.getsockname()[1]
        closed.close()
        assert reach(f"spark://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}") == "127.0.0.1"


def test_the_holders_of_slots_are_named(page_port: str) -> None:
    """A user would not know for which application a job waits."""
    assert slot_holders("spark://127.0.0.1:7077", page_port) == (
        "The cluster has 8 slots on 2 workers, 2 free (by worker: 0 with 512 MB, 2 with 1024 MB), "
        "held by 'orders' of ada (6, app-1)"
    )


def test_the_page_of_another_master_says_nothing(page_port: str) -> None:
    """The numbers of another cluster would mislead; and one without a page would not take jobs."""
    assert slot_holders("spark://127.0.0.1:7078", page_port) == ""
    assert slot_holders("spark://127.0.0.1:7077", "1") == ""
