"""Authentication by SASL: PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512. Source: RFC 4616, RFC 5802, KIP-152."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping

from penstock.connectors.kafka.protocol.wire import Request, Response

_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_HANDSHAKE, _AUTHENTICATE = 17, 36
Call = Callable[[Request], Response]


def checked_mechanism(properties: Mapping[str, str]) -> str:
    """The mechanism that is set. Raises ValueError if it is none of those above."""
    mechanism = (properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "GSSAPI").upper()
    if mechanism != "PLAIN" and mechanism not in _HASHES:
        raise ValueError(
            f"an exactly-once KafkaSink takes sasl.mechanism PLAIN, {' or '.join(_HASHES)}, not {mechanism}"
        )
    return mechanism


def authenticate(call: Call, properties: Mapping[str, str]) -> None:
    """Authenticate a new connection. Raises PermissionError if the broker refuses."""
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
        raise PermissionError("the broker has answered another client's SASL request")
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    unproved = f"c=biws,r={fields['r']}"
    signed = f"{first},{challenge},{unproved}".encode()
    signature = hmac.digest(hashlib.new(hash_name, client_key).digest(), signed, hash_name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    last = _exchange(call, f"{unproved},p={base64.b64encode(proof).decode()}".encode()).decode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", hash_name), signed, hash_name)
    if last.removeprefix("v=").partition(",")[0] != base64.b64encode(expected).decode():
        raise PermissionError("the broker does not know the password that it has accepted")


def _exchange(call: Call, data: bytes) -> bytes:
    response = call(Request(_AUTHENTICATE, 0).data(data))
    error, message = response.int16(), response.string()
    if error:
        raise PermissionError(f"the broker refuses the SASL authentication: {message or error}")
    return response.data()
