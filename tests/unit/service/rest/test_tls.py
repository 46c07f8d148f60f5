"""REST by TLS, with real certificates: whom clients trust, and that nobody listens in."""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.connectors.tls import certificate
from tests.unit.service.rest.served import Served

from penstock.common.configuration import Configuration
from penstock.common.errors import ConfigurationError, JobError, StateNotFoundError
from penstock.datastream.queryable_state import AsyncQueryableStateClient, QueryableStateClient
from penstock.service.client.remote_executor import cluster_of
from penstock.service.client.rest_client import TOKEN, RestClient, UnreachableError
from penstock.service.cluster.rest_tls import CA
from penstock.service.dispatcher.cluster_settings import ClusterSettings
from penstock.service.dispatcher.job_store import JobStore
from penstock.service.dispatcher.leader import rest_server
from penstock.service.rest.endpoint import RestEndpoint, endpoint_of
from penstock.service.rest.server_certificate import ServerCertificate

SSL = "security.ssl.rest."


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """By TLS, with a job. Its certificate is for 127.0.0.1."""
    one = Served(tmp_path, tls=ServerCertificate(str(certificate(tmp_path)), None))
    yield one
    one.endpoint.close()


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def test_a_client_on_this_machine_knows_the_endpoint_by_its_certificate(served: Served, tmp_path: Path) -> None:
    """A user would have to tell each command whom to trust; or the token go to whoever took the port."""
    here, url = {"XDG_CACHE_HOME": str(tmp_path)}, served.endpoint.address.url
    port = port_of(url)
    assert url == f"https://127.0.0.1:{port}"
    for address in (f"127.0.0.1:{port}", f"localhost:{port}", url):
        client = RestClient.at(address, here)
        assert client.url.startswith("https://") and client.get("/jobs")["jobs"][0]["id"] == "id", address
    kept = tmp_path / "penstock" / "rest" / f"{port}.pem"
    assert kept.read_text().count("BEGIN") == 1 and "PRIVATE" not in kept.read_text()
    (tmp_path / "other").mkdir()
    certificate(tmp_path / "other")
    kept.write_text((tmp_path / "other" / "ca.pem").read_text())
    with pytest.raises(UnreachableError, match="is not trusted"):
        RestClient.at(url, here).get("/jobs")


def test_any_other_endpoint_has_a_certificate_of_a_trusted_authority_for_its_name(
    served: Served, tmp_path: Path
) -> None:
    """The token would go to whoever answers in the place of a cluster elsewhere."""
    url = served.endpoint.address.url
    elsewhere = {"XDG_CACHE_HOME": str(tmp_path / "elsewhere"), TOKEN: served.endpoint.token}
    with pytest.raises(UnreachableError, match=r"self.signed certificate"):
        RestClient.at(url, elsewhere).get("/jobs")
    trusting = elsewhere | {CA: str(tmp_path / "ca.pem")}
    assert RestClient.at(url, trusting).get("/jobs")["jobs"]
    with pytest.raises(UnreachableError, match=r"[Hh]ostname mismatch"):
        RestClient.at(f"https://localhost:{port_of(url)}", trusting).get("/jobs")
    with pytest.raises(ConfigurationError, match=rf"cannot read .*none\.pem, which {CA} names"):
        RestClient.at(url, elsewhere | {CA: str(tmp_path / "none.pem")}).get("/jobs")


def test_a_configuration_that_asks_for_tls_asks_clusters_so(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flink's configuration file of a client would send the token in the clear."""
    for name, value in ((TOKEN, served.endpoint.token), (CA, str(tmp_path / "ca.pem"))):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    cluster = {"rest.address": "127.0.0.1", "rest.port": str(port_of(served.endpoint.address.url))}
    secured = cluster_of(Configuration.from_dict(cluster | {f"{SSL}enabled": "true"}))
    assert secured.url == served.endpoint.address.url and secured.get("/jobs")["jobs"]
    assert cluster_of(Configuration.from_dict(cluster)).url.startswith("http://")


def test_nothing_is_answered_without_tls(served: Served) -> None:
    """Whoever listens would read the token."""
    connection = http.client.HTTPConnection("127.0.0.1", port_of(served.endpoint.address.url), timeout=60)
    with pytest.raises((OSError, http.client.HTTPException)):
        connection.request("GET", "/jobs", headers={"Authorization": f"Bearer {served.endpoint.token}"})
        connection.getresponse()
    connection.close()


def test_a_browsers_cookie_goes_by_tls_only(served: Served, tmp_path: Path) -> None:
    """Another server at a port of this machine, without TLS, would be sent the token."""
    trusted = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    connection = http.client.HTTPSConnection(
        "127.0.0.1", port_of(served.endpoint.address.url), context=trusted, timeout=60
    )
    connection.request("POST", "/login", f"token={served.endpoint.token}")
    answer = connection.getresponse()
    assert answer.status == 303 and "secure" in (answer.headers["set-cookie"] or "").lower()
    connection.close()


def test_state_is_asked_for_by_tls(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever switches TLS on could not query state any more."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    at = served.endpoint.address.url, served.endpoint.token
    with pytest.raises(StateNotFoundError, match="no completed checkpoint"):
        QueryableStateClient(*at).states("id")
    with pytest.raises(StateNotFoundError, match="no completed checkpoint"):
        asyncio.run(AsyncQueryableStateClient(*at).states("id"))


def test_what_is_no_certificate_is_told_at_the_start(tmp_path: Path, process_without_endpoint: None) -> None:
    """A job would run for days before anyone finds that nobody can watch it."""
    (tmp_path / "other").mkdir()
    good, other = certificate(tmp_path), certificate(tmp_path / "other")
    alone = str(tmp_path / "ca.pem")
    for name, text in (("empty.pem", ""), ("locked.pem", "-----BEGIN ENCRYPTED PRIVATE KEY-----")):
        (tmp_path / name).write_text(text)
    (tmp_path / "cut.pem").write_text(good.read_text().replace("A", "", 1))
    assert ServerCertificate.of(Configuration()) is None
    ports = {"rest.bind-port": "0", f"{SSL}enabled": "true"}
    for settings, said in (
        ({}, rf"the certificate is missing. Set {SSL}certificate"),
        ({"certificate": str(tmp_path / "none.pem")}, r"none\.pem can't be read: No such file"),
        ({"certificate": str(tmp_path)}, r"can't be read: Is a directory"),
        ({"certificate": str(tmp_path / "empty.pem")}, r"empty\.pem contains no certificate"),
        ({"certificate": str(tmp_path / "cut.pem")}, r"cut\.pem can't be used: "),
        ({"certificate": alone}, rf"ca\.pem contains no private key .*Set {SSL}private-key to its file"),
        ({"certificate": alone, "private-key": str(tmp_path / "none.pem")}, rf"{SSL}private-key: .*none\.pem can't be"),
        ({"certificate": alone, "private-key": alone}, rf"{SSL}private-key: .*ca\.pem contains no private key"),
        (
            {"certificate": alone, "private-key": str(tmp_path / "locked.pem")},
            r"locked\.pem is encrypted.*openssl pkey",
        ),
        ({"certificate": str(good), "private-key": str(other)}, r"other/server\.pem is not that of the first certific"),
    ):
        given = ports | {SSL + name: value for name, value in settings.items()}
        with pytest.raises(ConfigurationError, match=said):
            endpoint_of(Configuration.from_dict(given), None)
    kept = Configuration.from_dict(ports | {f"{SSL}certificate": str(good)})
    assert ServerCertificate.of(kept) == (str(good), None)


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (-1, "is refused by clients of other machines: certificate has expired"),
        (3, r"expires in \d\.\d days"),
        (90, None),
    ],
)
def test_a_certificate_that_has_expired_or_soon_will_is_told_at_the_start(
    days: float, said: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its operator would hear of it from users, the day after. Jobs need it for nothing, so they go on."""
    both = str(certificate(tmp_path, days))
    given = Configuration.from_dict({f"{SSL}enabled": "true", f"{SSL}certificate": both})
    assert ServerCertificate.of(given) == (both, None)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == (said is not None) and all(re.search(rf"{both} {said}", line) for line in told)


def test_an_operator_reaches_an_endpoint_whose_certificate_has_expired(tmp_path: Path) -> None:
    """Nobody could take a savepoint, or stop the cluster to give it a new one. From elsewhere nobody may trust it."""
    here = {"XDG_CACHE_HOME": str(tmp_path)}
    endpoint = RestEndpoint("0", here, tls=ServerCertificate(str(certificate(tmp_path, days=-1)), None))
    try:
        url = endpoint.address.url
        assert RestClient.at(url, here).get("/jobs") == {"jobs": []}
        elsewhere = {"XDG_CACHE_HOME": str(tmp_path / "other"), TOKEN: endpoint.token, CA: str(tmp_path / "ca.pem")}
        with pytest.raises(UnreachableError, match=f"certificate of {url} is not trusted: certificate has expired"):
            RestClient.at(url, elsewhere).get("/jobs")
    finally:
        endpoint.close()


def test_what_the_kept_certificate_has_issued_is_not_trusted(tmp_path: Path) -> None:
    """`openssl req -x509` makes authorities: whoever has a certificate of one could take the token at that port."""
    (tmp_path / "issued").mkdir()
    own = certificate(tmp_path)
    issued = certificate(tmp_path / "issued", issuer=own)
    here = {"XDG_CACHE_HOME": str(tmp_path)}
    endpoint = RestEndpoint("0", here, tls=ServerCertificate(str(issued), None))
    try:
        url = endpoint.address.url
        kept = tmp_path / "penstock" / "rest" / f"{port_of(url)}.pem"
        assert RestClient.at(url, here).get("/jobs") == {"jobs": []}
        kept.write_text((tmp_path / "ca.pem").read_text())
        with pytest.raises(
            UnreachableError, match="is not trusted: it differs from the one that this endpoint has published"
        ):
            RestClient.at(url, here).get("/jobs")
        with pytest.raises(JobError, match="is not trusted: it differs from the one"):
            asyncio.run(asks_beside(url, endpoint.token, tmp_path))
        kept.write_text("-----BEGIN CERTIFICATE-----")
        with pytest.raises(ConfigurationError, match=rf"{kept}, is damaged"):
            RestClient.at(url, here).get("/jobs")
    finally:
        endpoint.close()


async def asks_beside(url: str, token: str, cache: Path) -> None:
    """As a client of an event loop."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(cache))
        await AsyncQueryableStateClient(url, token).states("id")


def test_an_older_tls_is_looked_at_as_well(tmp_path: Path) -> None:
    """Where OpenSSL has no TLS 1.3, an endpoint could not start: its handshake has more turns."""
    settings = tmp_path / "openssl.cnf"
    settings.write_text("openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nMaxProtocol = TLSv1.2\n")
    program = (
        "import sys; from penstock.common.configuration import Configuration\n"
        "from penstock.service.rest.server_certificate import ServerCertificate\n"
        f"given = {{'{SSL}enabled': 'true', '{SSL}certificate': sys.argv[1]}}\n"
        "print(ServerCertificate.of(Configuration.from_dict(given)))\n"
    )
    both = str(certificate(tmp_path, days=-1))
    environment = os.environ | {"OPENSSL_CONF": str(settings)}
    told = subprocess.run(
        [sys.executable, "-c", program, both], env=environment, capture_output=True, text=True, timeout=60
    )
    assert both in told.stdout and "certificate has expired" in told.stderr, told


def test_who_asks_by_tls_where_there_is_none_or_the_other_way_round_is_told(served: Served, tmp_path: Path) -> None:
    """OpenSSL says "wrong version number", and a server that hangs up says nothing."""
    port = port_of(served.endpoint.address.url)
    elsewhere = {"XDG_CACHE_HOME": str(tmp_path / "elsewhere"), TOKEN: served.endpoint.token}
    with pytest.raises(UnreachableError, match=f"If it serves by TLS, its address is https://127.0.0.1:{port}"):
        RestClient.at(f"127.0.0.1:{port}", elsewhere).get("/jobs")
    plain = RestEndpoint("0", {"XDG_CACHE_HOME": str(tmp_path / "plain")})
    try:
        port = port_of(plain.address.url)
        with pytest.raises(UnreachableError, match=f"does not use TLS: is its address http://127.0.0.1:{port}"):
            RestClient.at(f"https://127.0.0.1:{port}", elsewhere).get("/jobs")
    finally:
        plain.close()


def test_a_cluster_serves_by_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs, with the secrets in their settings, would go to a cluster in the clear."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ssl_settings = {f"{SSL}enabled": "true", f"{SSL}certificate": str(certificate(tmp_path))}
    server = rest_server(JobStore(tmp_path), ClusterSettings(1, str(tmp_path), "0", {}, ssl=ssl_settings))
    try:
        assert server.address.url.startswith("https://")
    finally:
        server.close()


def test_what_an_endpoint_without_tls_finds_of_one_that_was_killed_is_removed(tmp_path: Path) -> None:
    """Clients would ask by TLS where there is none any more, and find nobody."""
    here = {"XDG_CACHE_HOME": str(tmp_path)}
    endpoint = RestEndpoint("0", here, tls=ServerCertificate(str(certificate(tmp_path)), None))
    port = port_of(endpoint.address.url)
    kept = tmp_path / "penstock" / "rest" / f"{port}.pem"
    left = kept.read_text()
    endpoint.close()
    assert not kept.exists()
    kept.write_text(left)
    endpoint = RestEndpoint(str(port), here)
    try:
        assert RestClient.at(f"127.0.0.1:{port}", here).get("/jobs") == {"jobs": []}
    finally:
        endpoint.close()
