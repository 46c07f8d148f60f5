"""A connection to one broker: plain or by TLS, with SASL where it is set. Calls wait for the answer."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Mapping
from pathlib import Path

from penstock.connectors.kafka.protocol.sasl import authenticate, checked_mechanism
from penstock.connectors.kafka.protocol.wire import Request, Response

_CLIENT = "penstock"
Address = tuple[str, int]


def check_security(properties: Mapping[str, str]) -> None:
    """Raises ValueError for a way to authenticate that this client does not know."""
    for key in ("ssl.keystore.location", "ssl.certificate.pem", "ssl.key.pem"):
        if key in properties:
            raise ValueError(
                f"an exactly-once KafkaSink does not take {key}: set ssl.certificate.location and ssl.key.location, "
                "files as PEM"
            )
    if _protocol(properties) in ("SASL_PLAINTEXT", "SASL_SSL"):
        checked_mechanism(properties)


def addresses_of(bootstrap_servers: str) -> list[Address]:
    """Hosts and ports of `host:port,host:port`."""
    addresses = []
    for server in bootstrap_servers.split(","):
        host, _, port = server.strip().rpartition("://")[2].rpartition(":")
        addresses.append((host.strip("[]") or port, int(port) if host else 9092))
    return addresses


class BrokerConnection:
    """Connects when constructed. Raises OSError if that fails, here and in `call`; the connection is closed then.

    A broker that does not answer for `timeout_s` seconds has failed; one that is not who it should be, by its
    certificate, is a PermissionError.
    """

    def __init__(self, address: Address, properties: Mapping[str, str], timeout_s: float) -> None:
        self._correlation_id = 0
        self._socket = socket.create_connection(address, timeout=timeout_s)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            protocol = _protocol(properties)
            if protocol in ("SSL", "SASL_SSL"):
                self._socket = _tls(properties).wrap_socket(self._socket, server_hostname=address[0])
            if protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
                authenticate(self.call, properties)
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise PermissionError(
                f"the certificate of the broker {address[0]}:{address[1]} is refused: {error.verify_message}. Check "
                "ssl.ca.location, and the host names in the certificate"
            ) from error
        except BaseException:
            self.close()
            raise

    def call(self, request: Request) -> Response:
        """Send a request and wait for its answer."""
        self._correlation_id += 1
        try:
            self._socket.sendall(request.framed(self._correlation_id, _CLIENT))
            (length,) = struct.unpack(">i", self._receive(4))
            data = self._receive(length)
        except BaseException:
            # What comes later would be taken for the answer to another request.
            self.close()
            raise
        (correlation_id,) = struct.unpack_from(">i", data)
        assert correlation_id == self._correlation_id, "a broker has answered out of order"
        response = Response(data[4:], is_flexible=request.is_flexible)
        response.tags()
        return response

    def close(self) -> None:
        """Close it. Idempotent."""
        self._socket.close()

    def _receive(self, length: int) -> bytes:
        parts = []
        while length:
            data = self._socket.recv(length)
            if not data:
                raise ConnectionError("the broker has closed the connection")
            parts.append(data)
            length -= len(data)
        return b"".join(parts)


def _protocol(properties: Mapping[str, str]) -> str:
    return properties.get("security.protocol", "PLAINTEXT").upper()


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    trusted = properties.get("ssl.ca.location")
    is_folder = trusted is not None and Path(trusted).is_dir()
    context = ssl.create_default_context(
        cafile=None if is_folder else trusted,
        capath=trusted if is_folder else None,
        cadata=properties.get("ssl.ca.pem"),
    )
    if certificate := properties.get("ssl.certificate.location"):
        context.load_cert_chain(
            certificate, properties.get("ssl.key.location"), password=properties.get("ssl.key.password")
        )
    if properties.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    if properties.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
