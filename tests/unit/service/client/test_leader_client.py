"""A client that follows the leader of a cluster: by a shared folder here."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest
from tests.unit.service.cluster.high_availability.kubernetes_objects import NAMESPACE, api_server

from penstock.common.configuration import Configuration
from penstock.common.errors import ConfigurationError
from penstock.service.client.leader_client import LeaderClient
from penstock.service.client.rest_client import UnreachableError
from penstock.service.cluster.high_availability.kubernetes_register import ADDRESS
from penstock.service.cluster.high_availability.lease_register import LeaseRegister
from penstock.service.cluster.high_availability.services import register_of


@contextmanager
def serving(text: str, status: int = 200) -> Iterator[str]:
    """The URL of a leader that says so."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = text.encode()
            self.send_response(status if self.headers["Authorization"] == "Bearer token" else 401)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "token").write_text("token")
    return tmp_path


def client_of(folder: Path) -> LeaderClient:
    settings = {"type": "filesystem", "storageDir": str(folder), "cluster-id": "orders"}
    return LeaderClient(Configuration.from_dict({f"high-availability.{key}": text for key, text in settings.items()}))


def leads(folder: Path, url: str) -> LeaseRegister:
    register = LeaseRegister(folder / "orders", 60_000)
    term = register.look()
    assert term is not None and register.claim(term)
    register.confirm(url)
    return register


def test_it_follows_the_leader(folder: Path) -> None:
    """Programs would ask a process that is gone, until somebody tells them of the next one."""
    client = client_of(folder)
    with pytest.raises(UnreachableError, match=r"the cluster 'orders' .* has no leader"):
        client.get("/overview")
    with serving('"first"') as url:
        first = leads(folder, url)
        assert client.get("/overview") == "first"
    with serving('"second"') as url:
        first.close()
        second = leads(folder, url)
        with pytest.raises(UnreachableError):
            client.get("/overview")
        assert client.get("/overview") == "second"
        second.close()


def test_one_that_no_longer_leads_is_no_leader(folder: Path) -> None:
    """A client would take the refusal of a former leader for that of its cluster."""
    with serving('{"errors": ["another process leads"]}', 421) as url:
        register = leads(folder, url)
        with pytest.raises(UnreachableError, match="no longer leads its cluster: another process leads"):
            client_of(folder).get("/overview")
        register.close()


@pytest.mark.parametrize(
    ("host", "url", "said"),
    [
        (
            "elsewhere",
            "http://127.0.0.1:8081",
            "is led on elsewhere, .*ssh -N -L 8081:",
        ),
        (
            "elsewhere",
            "https://127.0.0.1:8082",
            "is led on elsewhere, .*ssh -N -L 8082:127.0.0.1:8082 elsewhere",
        ),
        (
            socket.gethostname(),
            "http://example.com:8081",
            "expected the address of a penstock cluster as the leader's, got http://example.com:8081",
        ),
    ],
)
def test_a_token_goes_to_this_machine_only(folder: Path, host: str, url: str, said: str) -> None:
    """Whoever can write to the register would be sent the token by all clients, and could run code as the user."""
    register = leads(folder, url)
    (lease,) = (folder / "orders" / "leader").glob("lease-*")
    content = msgspec.json.decode(lease.read_bytes())
    content["leader"]["host"] = host
    lease.write_bytes(msgspec.json.encode(content))
    with pytest.raises(ConfigurationError, match=said):
        client_of(folder).get("/overview")
    register.close()


def test_the_way_to_another_pod_is_told(folder: Path) -> None:
    """A user of kubectl would be told of ssh, which pods do not have."""
    with api_server() as server:
        settings = {"type": "kubernetes", "storageDir": str(folder), "cluster-id": "orders"}
        settings["kubernetes.api-server"] = server.url
        configuration = Configuration.from_dict(
            {f"high-availability.{key}": text for key, text in settings.items()} | {"kubernetes.namespace": NAMESPACE}
        )
        register = register_of(configuration)
        assert register.look() == 1 and register.claim(1)
        register.confirm("http://127.0.0.1:8081")
        annotations = server.store.objects["leases", "penstock-orders"]["metadata"]["annotations"]
        annotations[ADDRESS] = annotations[ADDRESS].replace(socket.gethostname(), "orders-0")
        with pytest.raises(
            ConfigurationError, match=r"led on orders-0, .*\(kubectl port-forward pod/orders-0 8081:8081\)"
        ):
            LeaderClient(configuration).get("/overview")


def test_a_token_that_is_not_there_is_told(folder: Path) -> None:
    """The user would be refused by the leader, and not know why."""
    register = leads(folder, "http://127.0.0.1:1")
    (folder / "orders" / "token").unlink()
    with pytest.raises(ConfigurationError, match=r"cannot read the token .*storageDir.*PENSTOCK_REST_TOKEN"):
        client_of(folder).get("/overview")
    register.close()
