"""A connection to one broker: plain or with TLS, with SASL if configured. Calls wait for the answer."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

from penstock.connectors.kafka.protocol.wire import Request, Response

# Authentication by SASL: PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512. Source: RFC 4616, RFC 5802, KIP-152.

_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_HANDSHAKE, _AUTHENTICATE = 17, 36
Call = Callable[[Request], Response]


def checked_mechanism(properties: Mapping[str, str]) -> str:
    """Return the configured mechanism. Raise ValueError if it is not supported."""
    mechanism = (properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "GSSAPI").upper()
    if mechanism != "PLAIN" and mechanism not in _HASHES:
        raise ValueError(
            f"sasl.mechanism of an exactly-once KafkaSink must be PLAIN, {' or '.join(_HASHES)}, got {mechanism}"
        )
    return mechanism


def authenticate(call: Call, properties: Mapping[str, str]) -> None:
    """Authenticate a new connection. Raise PermissionError if the broker refuses."""
    mechanism = checked_mechanism(properties)
    response = call(Request(_HANDSHAKE, 1).string(mechanism))
    if response.int16():
        offered = ", ".join(response.array(response.string))
        raise PermissionError(f"the broker does not offer SASL {mechanism}, but {offered}")
    user, password = properties.get("sasl.username", ""), properties.get("sasl.password", "")
    if mechanism == "PLAIN":
        _exchange(call, f"\0{user}\0{password}".encode())
    else:
        _scram(call, _HASHES[mechanism], user, password)


def _scram(call: Call, hash_name: str, user: str, password: str) -> None:
    name = user.replace("=", "=3D").replace(",", "=2C")
    nonce = secrets.token_urlsafe(24)
    first = f"n={name},r={nonce}"
    challenge = _exchange(call, f"n,,{first}".encode()).decode()
    fields = dict(field.split("=", 1) for field in challenge.split(","))
    if not fields["r"].startswith(nonce):
        raise PermissionError("the broker answered the SASL request of another client")
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    unproved = f"c=biws,r={fields['r']}"
    signed = f"{first},{challenge},{unproved}".encode()
    signature = hmac.digest(hashlib.new(hash_name, client_key).digest(), signed, hash_name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    last = _exchange(call, f"{unproved},p={base64.b64encode(proof).decode()}".encode()).decode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", hash_name), signed, hash_name)
    if last.removeprefix("v=").partition(",")[0] != base64.b64encode(expected).decode():
        raise PermissionError("the broker did not prove that it knows the password")


def _exchange(call: Call, data: bytes) -> bytes:
    response = call(Request(_AUTHENTICATE, 0).data(data))
    error, message = response.int16(), response.string()
    if error:
        raise PermissionError(f"the broker refuses the SASL authentication: {message or error}")
    return response.data()


_CLIENT = "penstock"
Address = tuple[str, int]


def check_security(properties: Mapping[str, str]) -> None:
    """Raise ValueError for a way to authenticate that this client does not support."""
    for key in ("ssl.keystore.location", "ssl.certificate.pem", "ssl.key.pem"):
        if key in properties:
            raise ValueError(
                f"an exactly-once KafkaSink does not support {key}: set ssl.certificate.location and ssl.key.location, "
                "which are PEM files"
            )
    if _protocol(properties) in ("SASL_PLAINTEXT", "SASL_SSL"):
        checked_mechanism(properties)


def addresses_of(bootstrap_servers: str) -> list[Address]:
    """Return hosts and ports of `host:port,host:port`."""
    addresses = []
    for server in bootstrap_servers.split(","):
        host, _, port = server.strip().rpartition("://")[2].rpartition(":")
        addresses.append((host.strip("[]") or port, int(port) if host else 9092))
    return addresses


class BrokerConnection:
    """Connect when constructed. If that or `call` fails, close the connection and raise OSError.

    A broker that does not answer for `timeout_s` seconds has failed. If its certificate does not prove its name, raise
    PermissionError.
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
            # A later answer would be taken for the answer to another request.
            self.close()
            raise
        (correlation_id,) = struct.unpack_from(">i", data)
        assert correlation_id == self._correlation_id, "a broker has answered out of order"
        response = Response(data[4:], is_flexible=request.is_flexible)
        response.tags()
        return response

    def close(self) -> None:
        """Close the connection. Idempotent."""
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
