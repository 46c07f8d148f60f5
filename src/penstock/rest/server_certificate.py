"""The certificate of a REST endpoint that serves by TLS, and its private key."""

from __future__ import annotations

import ssl
from typing import NamedTuple

from penstock.common import ssl_options as options
from penstock.common.configuration import Configuration
from penstock.common.errors import ConfigurationError


class ServerCertificate(NamedTuple):
    """Files (PEM). `private_key`: None: it is in that of the certificate."""

    certificate: str
    private_key: str | None

    @staticmethod
    def of(configuration: Configuration) -> ServerCertificate | None:
        """None: no TLS. Raises ConfigurationError if there is no certificate, or it can't be used."""
        if not configuration.get(options.ENABLED):
            return None
        certificate, key = configuration.get(options.CERTIFICATE), configuration.get(options.PRIVATE_KEY)
        if certificate is None:
            raise ConfigurationError(
                f"{options.ENABLED.key}: there is no certificate. {options.CERTIFICATE.key} names its file (PEM)"
            )
        try:
            # With a password that is none: else the terminal would be asked for that of an encrypted key.
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key, password="")
        except (OSError, ValueError) as error:
            files = certificate if key is None else f"{certificate}, with the key in {key},"
            raise ConfigurationError(f"{options.CERTIFICATE.key}: {files} can't be used: {error}") from None
        return ServerCertificate(certificate, key)
