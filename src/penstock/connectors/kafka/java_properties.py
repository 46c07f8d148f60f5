"""Java's names for client properties that librdkafka has under other names, as PyFlink's users write them."""

from __future__ import annotations

import re

_JAAS = "sasl.jaas.config"
_MODULES = ("PlainLoginModule", "ScramLoginModule")
_OPTION = re.compile(r"""(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;"']+))""")
_RENAMED = {
    "ssl.truststore.certificates": ("ssl.ca.pem",),
    "ssl.truststore.location": ("ssl.ca.location",),
    "ssl.keystore.certificate.chain": ("ssl.certificate.pem",),
    "ssl.keystore.key": ("ssl.key.pem",),
}
_IGNORED = {
    "key.deserializer", "value.deserializer", "key.serializer", "value.serializer",
    "ssl.truststore.type", "ssl.truststore.password", "ssl.keystore.type",
}  # fmt: skip


def to_librdkafka(properties: dict[str, str]) -> dict[str, str]:
    """Return the settings by librdkafka's names. Raise ValueError for settings without an equivalent."""
    renamed: dict[str, str] = {}
    for key, value in properties.items():
        if key == _JAAS:
            renamed |= _credentials(value)
        elif key == "ssl.keystore.location" and properties.get("ssl.keystore.type", "").upper() == "PEM":
            renamed |= {"ssl.certificate.location": value, "ssl.key.location": value}
        elif key == "ssl.truststore.location" and properties.get("ssl.truststore.type", "").upper() != "PEM":
            raise ValueError(
                "ssl.truststore.location must be a PEM file, got a JKS file: export its certificates (keytool -list "
                "-rfc) and set ssl.ca.location to that file. If it is a PEM file, set ssl.truststore.type to PEM"
            )
        elif key == "ssl.endpoint.identification.algorithm":
            renamed[key] = value or "none"
        elif key not in _IGNORED:
            renamed |= dict.fromkeys(_RENAMED.get(key, (key,)), value)
    return renamed


def _credentials(jaas: str) -> dict[str, str]:
    """Return user and password of a login module. Messages omit the value, which may contain a password."""
    found = {name: quoted or single or bare for name, quoted, single, bare in _OPTION.findall(jaas)}
    if not any(module in jaas for module in _MODULES) or found.keys() != {"username", "password"}:
        raise ValueError(
            f"{_JAAS} must name {' or '.join(_MODULES)}, with username and password. For other mechanisms, set "
            "librdkafka's properties (for these: sasl.username and sasl.password)"
        )
    return {f"sasl.{name}": re.sub(r"\\(.)", r"\1", value) for name, value in found.items()}
