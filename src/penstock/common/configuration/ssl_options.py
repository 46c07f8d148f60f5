"""The options of TLS. Flink's keep keys and certificates in Java's key stores; these are files in PEM.

Source: Flink docs, "SSL Setup".
"""

from __future__ import annotations

from penstock.common.config_options import ConfigOptions

_PREFIX = "security.ssl.rest."


def _key(name: str) -> ConfigOptions.OptionBuilder:
    return ConfigOptions.key(_PREFIX + name)


ENABLED = (
    _key("enabled")
    .boolean_type()
    .default_value(False)
    .with_description("Whether REST is served by TLS (https), and clusters are asked so.")
)
CERTIFICATE = (
    _key("certificate")
    .string_type()
    .no_default_value()
    .with_description("The file (PEM) with the certificate of REST, followed by those of its issuers.")
)
PRIVATE_KEY = (
    _key("private-key")
    .string_type()
    .no_default_value()
    .with_description("The file (PEM) with its private key, not encrypted. Not set: it is in that of the certificate.")
)
