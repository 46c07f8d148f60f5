"""The certificate of a REST endpoint with TLS, and its private key."""

from __future__ import annotations

import logging
import ssl
import time
from pathlib import Path
from typing import NamedTuple

from penstock.common.config_options import ConfigOption
from penstock.common.configuration import Configuration
from penstock.common.configuration import rest_options as options
from penstock.common.errors import ConfigurationError

_SOON_DAYS = 14
_ROUNDS_MAX = 5
_log = logging.getLogger(__name__)


class ServerCertificate(NamedTuple):
    """Files (PEM). `private_key`: None: it is in the file of the certificate."""

    certificate: str
    private_key: str | None

    @staticmethod
    def of(configuration: Configuration) -> ServerCertificate | None:
        """Return the certificate; None: no TLS. Raises ConfigurationError if it is missing or unusable.

        Logs a warning if it has expired, or will soon: jobs continue, and clients of this machine know it anyway.
        """
        if not configuration.get(options.SSL_ENABLED):
            return None
        certificate, key = configuration.get(options.SSL_CERTIFICATE), configuration.get(options.SSL_PRIVATE_KEY)
        if certificate is None:
            raise ConfigurationError(
                f"{options.SSL_ENABLED.key}: the certificate is missing. "
                f"Set {options.SSL_CERTIFICATE.key} to its file (PEM)"
            )
        doubt = _doubt(certificate, _loaded(certificate, key))
        if doubt is not None:
            _log.warning("%s: %s %s", options.SSL_CERTIFICATE.key, certificate, doubt)
        return ServerCertificate(certificate, key)


def _loaded(certificate: str, key: str | None) -> ssl.SSLContext:
    """Raise ConfigurationError in words: OpenSSL has only codes."""
    if "-----BEGIN CERTIFICATE-----" not in _text(options.SSL_CERTIFICATE, certificate):
        raise ConfigurationError(f"{options.SSL_CERTIFICATE.key}: {certificate} contains no certificate (PEM)")
    option, in_file = (options.SSL_CERTIFICATE, certificate) if key is None else (options.SSL_PRIVATE_KEY, key)
    private = _text(option, in_file)
    if "PRIVATE KEY-----" not in private:
        message = f"{option.key}: {in_file} contains no private key (PEM)"
        raise ConfigurationError(
            message if key is not None else f"{message}. Set {options.SSL_PRIVATE_KEY.key} to its file"
        )
    if "ENCRYPTED" in private:
        raise ConfigurationError(
            f"{option.key}: the private key in {in_file} is encrypted, and its password cannot be entered here: use an "
            f"unencrypted one, in a file that only its user can read (openssl pkey -in {in_file} -out FILE)"
        )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # With an empty password, or OpenSSL would ask the terminal for that of an encrypted key.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:
        if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigurationError(
                f"{option.key}: the private key in {in_file} is not that of the first certificate in {certificate}"
            ) from None
        files = certificate if key is None else f"{certificate}, with the key in {key},"
        raise ConfigurationError(f"{options.SSL_CERTIFICATE.key}: {files} can't be used: {error}") from None
    return context


def _text(option: ConfigOption[str | None], file: str) -> str:
    try:
        return Path(file).read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise ConfigurationError(f"{option.key}: {file} can't be read: {error.strerror}") from None


def _doubt(certificate: str, server: ssl.SSLContext) -> str | None:
    """Return why clients may refuse the certificate, now or soon, because of its dates; None: they accept it.

    Uses a handshake in memory, with a client that trusts just this certificate: the standard library has no other way
    to read one.
    """
    client = ssl.create_default_context(cafile=certificate)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asks = client.wrap_bio(to_client, to_server)
    answers = server.wrap_bio(to_server, to_client, server_side=True)
    # Alternate until the client has seen the certificate: TLS 1.3 needs two rounds, 1.2 three.
    for side in [answers, asks] * _ROUNDS_MAX:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLError as error:
            why = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error.reason
            return f"is refused by clients of other machines: {why}"
        if side is asks:
            break
    else:
        return "could not be checked: the handshake failed"
    until = ssl.cert_time_to_seconds(str((asks.getpeercert() or {})["notAfter"]))
    days = (until - time.time()) / 86_400
    return f"expires in {days:.1f} days: clients of other machines refuse it then" if days < _SOON_DAYS else None
