"""TLS of REST as its clients see it: whom they trust.

An endpoint of this user on this machine is known by its very certificate, which lies beside its token: whatever name is
in it, whoever has issued it, and however old it is. Any other one has a certificate for the name by which it is asked,
of an authority that `PENSTOCK_REST_CA` names, or that this machine trusts.
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
    """Keep the certificate of the endpoint at this port for clients of the same user; None: it has none.

    `certificate`: a file, of which the first one is kept. Raises OSError.
    """
    path = _kept(port, environ)
    # A process that was killed has left it.
    path.unlink(missing_ok=True)
    if certificate is not None:
        found = _CERTIFICATE.search(Path(certificate).read_text(encoding="ascii", errors="replace"))
        # Whole, or not there: clients may look for it now. That there is one, the server has seen.
        unfinished = path.with_name(f".{path.name}")
        unfinished.write_text(found[0] if found is not None else "", encoding="ascii")
        unfinished.replace(path)
    return path


def serves_tls(host: str, port: int, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the endpoint is one of this user on this machine, by TLS."""
    return host in (LOOPBACK, "localhost") and _kept(port, environ).exists()


def trusted(url: str, environ: Mapping[str, str] = os.environ) -> ssl.SSLContext | None:
    """By what the one that answers at `url` shows who it is; None: by nothing, it is no https.

    Raises ConfigurationError if the file of authorities can't be read.
    """
    parts = urlsplit(url)
    if parts.scheme != "https":
        return None
    if CA not in environ and serves_tls(parts.hostname or "", _port(parts), environ):
        # Gone, if the endpoint is: then nobody answers.
        with contextlib.suppress(FileNotFoundError):
            return _known_by(_kept(_port(parts), environ))
    authorities = environ.get(CA)
    try:
        return ssl.create_default_context(cafile=authorities)
    except OSError as error:
        raise ConfigurationError(f"{CA} names {authorities}, which can't be read: {error}") from None


def connection_to(
    url: str, timeout_s: float | None, environ: Mapping[str, str] = os.environ
) -> http.client.HTTPConnection:
    """A connection that is opened by its first request. Raises ConfigurationError."""
    parts, context = urlsplit(url), trusted(url, environ)
    host = parts.hostname or ""
    if context is None:
        return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
    return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=context)


def _known_by(kept: Path) -> ssl.SSLContext:
    """Of the endpoint whose certificate is in this file, and of nobody to whom it has issued one."""
    try:
        known = ssl.PEM_cert_to_DER_cert(kept.read_text(encoding="ascii"))
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{kept}, by which this user's endpoint is known, is damaged ({error}). Start it again, or set {CA}"
        ) from None
    context = ssl.create_default_context()
    # Nothing of it but what it is: `_check` compares it, byte by byte, before anything is sent.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    class KnownSocket(ssl.SSLSocket):
        """Of a thread."""

        def do_handshake(self, block: bool = False) -> None:
            super().do_handshake(block)
            _check(self.getpeercert(binary_form=True), known)

    class KnownObject(ssl.SSLObject):
        """Of an event loop."""

        def do_handshake(self) -> None:
            super().do_handshake()
            _check(self.getpeercert(binary_form=True), known)

    context.sslsocket_class, context.sslobject_class = KnownSocket, KnownObject
    return context


def _check(shown: bytes | None, known: bytes) -> None:
    if shown != known:
        error = ssl.SSLCertVerificationError(1, "another certificate")
        error.verify_message = "it is not the one that this endpoint has left for its clients"
        raise error


def no_answer(url: str, error: BaseException) -> str:
    """What a failed request to `url` says to its user, and what to do about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        told = f"the certificate of {url} is not trusted: {error.verify_message}"
        if error.verify_message.endswith("self-signed certificate") or "issuer" in error.verify_message:
            told += f". {CA} names a file (PEM) with it, or its authority's"
        return told
    if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
        return f"what answers at {url} has no TLS: is its address http://{urlsplit(url).netloc}?"
    told = f"nothing answers at {url}: {error}"
    if url.startswith("http:") and isinstance(error, http.client.BadStatusLine | ConnectionResetError):
        told += f". If it serves by TLS, its address is https://{urlsplit(url).netloc}"
    return told


def _kept(port: int, environ: Mapping[str, str]) -> Path:
    return cache_directory(environ) / "rest" / f"{port}.pem"


def _port(parts: SplitResult) -> int:
    return parts.port or http.client.HTTPS_PORT
