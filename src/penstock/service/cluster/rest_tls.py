"""TLS of REST on the client's side: which certificates it trusts.

An endpoint of this user on this machine is identified by its exact certificate, which lies next to its token: whatever
its name, issuer and age. Any other endpoint needs a certificate for the requested name, of an authority that
`PENSTOCK_REST_CA` names, or that this machine trusts.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from penstock.common.errors import ConfigurationError
from penstock.common.files.cache_directory import cache_directory

CA = "PENSTOCK_REST_CA"
"""The environment variable with the file (PEM) of authorities whose certificates clients trust."""
LOOPBACK = "127.0.0.1"
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)


def keep_certificate(port: int, certificate: str | None, environ: Mapping[str, str] = os.environ) -> Path:
    """Keep the certificate of the endpoint at this port for clients of the same user; None: it has no TLS.

    `certificate`: a file, of which the first certificate is kept. Raises OSError.
    """
    path = _kept(port, environ)
    # A killed process has left it.
    path.unlink(missing_ok=True)
    if certificate is not None:
        found = _CERTIFICATE.search(Path(certificate).read_text(encoding="ascii", errors="replace"))
        # Replaced in one step, since clients may read it now. The server has checked that the file has a certificate.
        unfinished = path.with_name(f".{path.name}")
        unfinished.write_text(found[0] if found is not None else "", encoding="ascii")
        unfinished.replace(path)
    return path


def serves_tls(host: str, port: int, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the endpoint is one of this user on this machine, with TLS."""
    return host in (LOOPBACK, "localhost") and _kept(port, environ).exists()


def trusted(url: str, environ: Mapping[str, str] = os.environ) -> ssl.SSLContext | None:
    """Return the SSL context that verifies `url`; None for http.

    Raises ConfigurationError if the file of authorities can't be read.
    """
    parts = urlsplit(url)
    if parts.scheme != "https":
        return None
    if CA not in environ and serves_tls(parts.hostname or "", _port(parts), environ):
        # The endpoint and its file are gone.
        with contextlib.suppress(FileNotFoundError):
            return _known_by(_kept(_port(parts), environ))
    authorities = environ.get(CA)
    try:
        return ssl.create_default_context(cafile=authorities)
    except OSError as error:
        raise ConfigurationError(f"cannot read {authorities}, which {CA} names: {error}") from None


def _known_by(kept: Path) -> ssl.SSLContext:
    """Return an SSL context that trusts exactly the certificate in this file, and none that it has signed."""
    try:
        known = ssl.PEM_cert_to_DER_cert(kept.read_text(encoding="ascii"))
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"the certificate of this user's endpoint, {kept}, is damaged ({error}). Restart the endpoint, or set {CA}"
        ) from None
    context = ssl.create_default_context()
    # No checks of name or chain: `_check` compares the certificate, byte by byte, before anything is sent.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    class KnownSocket(ssl.SSLSocket):
        """The socket of a thread's connection."""

        def do_handshake(self, block: bool = False) -> None:
            super().do_handshake(block)
            _check(self.getpeercert(binary_form=True), known)

    class KnownObject(ssl.SSLObject):
        """The connection of an event loop."""

        def do_handshake(self) -> None:
            super().do_handshake()
            _check(self.getpeercert(binary_form=True), known)

    context.sslsocket_class, context.sslobject_class = KnownSocket, KnownObject
    return context


def _check(shown: bytes | None, known: bytes) -> None:
    if shown != known:
        error = ssl.SSLCertVerificationError(1, "another certificate")
        error.verify_message = "it differs from the one that this endpoint has published"
        raise error


def no_answer(url: str, error: BaseException) -> str:
    """Return what to tell the user about a failed request to `url`, and what to do about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        message = f"the certificate of {url} is not trusted: {error.verify_message}"
        if error.verify_message.endswith("self-signed certificate") or "issuer" in error.verify_message:
            message += f". Set {CA} to a file (PEM) with it, or with its authority's"
        return message
    if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
        return f"the server at {url} does not use TLS: is its address http://{urlsplit(url).netloc}?"
    message = f"nothing answers at {url}: {error}"
    if url.startswith("http:") and isinstance(error, http.client.BadStatusLine | ConnectionResetError):
        message += f". If it serves by TLS, its address is https://{urlsplit(url).netloc}"
    return message


def _kept(port: int, environ: Mapping[str, str]) -> Path:
    return cache_directory(environ) / "rest" / f"{port}.pem"


def _port(parts: SplitResult) -> int:
    return parts.port or http.client.HTTPS_PORT
