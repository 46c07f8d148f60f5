"""HTTP by TLS: whom records are sent to, and events are taken from."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.connectors.driven import SourceInTest
from tests.connectors.http_service import HttpService, status
from tests.connectors.test_http_events import fetchers, numbered, source_of
from tests.connectors.test_http_sink import sink_to, writer_of
from tests.connectors.tls import certificate

from penstock.common.errors import SourceError
from penstock.datastream.connectors.http import HttpError

pytestmark = pytest.mark.connectors


def test_the_servers_certificate_is_checked(tmp_path: Path) -> None:
    """Records and the password would go to any server at the address; or the job would retry for minutes."""
    with HttpService(certificate=certificate(tmp_path)) as service:
        authority = str(tmp_path / "ca.pem")
        refused = {
            "is not trusted: self.signed certificate. Set ca_path": sink_to(service),
            "is not trusted: Hostname mismatch": sink_to(
                service, url=f"https://localhost:{service.port}/", ca_path=authority
            ),
            "cannot read the certificates in .*none.pem": sink_to(service, ca_path=str(tmp_path / "none.pem")),
        }
        for said, sink in refused.items():
            writer = writer_of(sink)
            writer.write_chunk([1, 2, 3], None)
            with pytest.raises(HttpError, match=said):
                writer.flush(False)
            writer.close()
        assert not service.asked

        writer = writer_of(sink_to(service, ca_path=authority))
        writer.write_chunk([1, 2, 3, 4], None)
        writer.flush(False)
        writer.close()
        assert service.records == [1, 2, 3, 4]


def test_a_server_without_tls() -> None:
    """The message would be of a connection that is away, which it is not."""
    with HttpService() as service:
        writer = writer_of(sink_to(service, url=f"https://127.0.0.1:{service.port}/", max_retries=0))
        writer.write_chunk([1, 2, 3], None)
        with pytest.raises(HttpError, match="SSL"):
            writer.flush(False)
        writer.close()


def test_events_by_tls(tmp_path: Path) -> None:
    """Events of servers on the internet could not be read; or a job could not be canceled without events."""
    quiet, others = threading.Event(), fetchers()
    tls = certificate(tmp_path)
    with HttpService(numbered(1, 2), numbered(3, then=quiet), usual=status(204), certificate=tls) as service:
        run = SourceInTest(source_of(service))
        with pytest.raises(SourceError, match="is not trusted"):
            run.values()
        run.close()
        run = SourceInTest(source_of(service, ca_path=str(tmp_path / "ca.pem")))
        assert [event.data for event in run.values(3)] == ["1", "2", "3"]
        run.close()
        assert not fetchers() - others
    quiet.set()
