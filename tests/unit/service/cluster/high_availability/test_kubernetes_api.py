"""The API server of Kubernetes, as a pod asks it: TLS, the token, and what is said if it refuses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.connectors.tls import certificate
from tests.unit.service.cluster.high_availability.kubernetes_objects import NAMESPACE, ApiServerDouble

from penstock.common.errors import ConfigurationError
from penstock.service.cluster.high_availability.kubernetes_api import (
    LEASE,
    ApiError,
    ApiServer,
    MissingError,
    RefusedError,
    address_in,
)
from penstock.testing.server_process import free_ports


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """What Kubernetes mounts into a pod."""
    (tmp_path / "token").write_text("first\n")
    return tmp_path


@pytest.fixture
def server(account: Path) -> Iterator[ApiServerDouble]:
    file = certificate(account)
    (account / "ca.pem").rename(account / "ca.crt")
    with ApiServerDouble(file, "first") as server:
        yield server


def test_the_token_is_read_again(server: ApiServerDouble, account: Path) -> None:
    """Kubernetes replaces it every hour: a leader would lose its lead then, and all jobs start again."""
    client = ApiServer(server.url, NAMESPACE, account, 5)
    assert client.create(LEASE, LEASE.empty(NAMESPACE, "one", {}))["metadata"]["resourceVersion"]
    server.token = "second"
    with pytest.raises(RefusedError, match="401: Unauthorized"):
        client.get(LEASE, "one")
    (account / "token").write_text("second\n")
    assert client.get(LEASE, "one")["metadata"]["name"] == "one"


def test_another_server_gets_no_token(server: ApiServerDouble, account: Path, tmp_path: Path) -> None:
    """Whoever answers at that address could lead the cluster."""
    other = tmp_path / "other"
    other.mkdir()
    certificate(other)
    (account / "ca.crt").write_bytes((other / "ca.pem").read_bytes())
    with pytest.raises(ApiError, match="CERTIFICATE_VERIFY_FAILED"):
        ApiServer(server.url, NAMESPACE, account, 5).get(LEASE, "one")
    assert server.requests == 0


def test_what_is_not_allowed_is_told(server: ApiServerDouble, account: Path) -> None:
    """A user whose service account lacks a role would read of an election that does not end."""
    server.allowed.remove("GET")
    with pytest.raises(RefusedError, match='403: leases is forbidden: User "penstock" cannot GET'):
        ApiServer(server.url, NAMESPACE, account, 5).get(LEASE, "one")


def test_no_server_and_no_authority(tmp_path: Path) -> None:
    """The user would read a traceback of Python's."""
    port = free_ports(1)[0]
    with pytest.raises(ApiError, match=r"did not answer GET /apis/coordination.k8s.io/v1/namespaces/orders/leases/one"):
        ApiServer(f"http://127.0.0.1:{port}", NAMESPACE, None, 5).get(LEASE, "one")
    with pytest.raises(ConfigurationError, match=r"authority can't be read: .*ca\.crt"):
        ApiServer(f"https://127.0.0.1:{port}", NAMESPACE, tmp_path, 5)


@pytest.mark.parametrize("url", ["10.0.0.1:443", "ftp://10.0.0.1", "http://10.0.0.1:8001", ""])
def test_addresses_that_are_refused(url: str) -> None:
    """Without TLS, anybody between could lead the cluster."""
    with pytest.raises(ConfigurationError, match=r"expected https://HOST:PORT|without TLS"):
        ApiServer(url, NAMESPACE, None, 5)


def test_the_address_of_a_pod() -> None:
    """Each pod would have to be told; and in a cluster with IPv6 there would be none."""
    pod = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
    assert address_in({}) is None
    assert address_in(pod) == "https://10.96.0.1:6443"
    assert address_in({"KUBERNETES_SERVICE_HOST": "fd00::1"}) == "https://[fd00::1]:443"


@pytest.mark.parametrize("status", [200, 404, 502])
def test_an_answer_of_something_else(status: int) -> None:
    """A proxy on the way answers with a page: a leader that takes it for an object would end with a traceback."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "6")
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Page) as proxy:
        threading.Thread(target=proxy.handle_request, daemon=True).start()
        client = ApiServer(f"http://127.0.0.1:{proxy.server_port}", NAMESPACE, None, 5)
        with pytest.raises(MissingError if status == 404 else ApiError, match=f"with status {status}: <html>"):
            client.get(LEASE, "one")
