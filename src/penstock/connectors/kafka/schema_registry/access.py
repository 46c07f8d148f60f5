"""Addresses, credentials and TLS of a schema registry, from the configs of Confluent's clients."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from penstock.common.http import basic_authorization, shown_address, user_info_of
from penstock.connectors.kafka.java_properties import to_librdkafka

_PREFIX = "schema.registry."
_SOURCE, _USER_INFO = "basic.auth.credentials.source", "basic.auth.user.info"
_BEARER_SOURCE, _TOKEN = "bearer.auth.credentials.source", "bearer.auth.token"
_REGISTERS = "auto.register.schemas"
_TLS = {
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
}
_OWN_CONFIGS = {_SOURCE, _USER_INFO, _BEARER_SOURCE, _TOKEN, _REGISTERS}


class Access:
    """Addresses, credentials and TLS of a registry. Its text contains the addresses without passwords.

    `registers`: whether a writer registers its schema, or only looks it up (`auto.register.schemas`).
    """

    def __init__(self, url: str, configs: Mapping[str, str] | None) -> None:
        """`url`: one or several, separated by commas, of which any may answer. Raise TypeError or ValueError."""
        if not isinstance(url, str):
            raise TypeError(f"the url of a schema registry must be a str, got a {type(url).__name__}")
        urls = [one.strip() for one in url.split(",")]
        self.addresses = [_address(one) for one in urls]
        """The URLs of the servers, without user and password."""
        settings = _settings(configs or {})
        self.registers = _as_bool(settings.get(_REGISTERS, "true"))
        self._authorization = _authorization(settings, user_info_of(urls[0]) or "")
        self._tls = {key: value for key, value in settings.items() if key in _TLS}

    def __str__(self) -> str:
        return ", ".join(map(str, self.addresses))

    def __repr__(self) -> str:
        return f"Access({self})"

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of each request."""
        return {"Authorization": self._authorization} if self._authorization else {}

    def tls(self) -> ssl.SSLContext:
        """Return the TLS settings: trusted and own certificates. Raise OSError for unreadable files."""
        setting = self._tls.get
        context = ssl.create_default_context(cafile=setting("ssl.ca.location"), cadata=setting("ssl.ca.pem"))
        if setting("ssl.endpoint.identification.algorithm") == "none":
            context.check_hostname = False
        certificate = setting("ssl.certificate.location")
        if certificate is not None:
            context.load_cert_chain(certificate, setting("ssl.key.location"), setting("ssl.key.password"))
        return context


def _address(url: str) -> str:
    # An unreadable URL may contain a password: the message does not show it.
    try:
        parts, address = urlsplit(url), shown_address(url)
    except ValueError:
        raise ValueError(
            "cannot read the url of a schema registry: expected one such as http://registry:8081"
        ) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("the url of a schema registry must begin with http:// or https:// and name a host")
    return address.rstrip("/")


def _settings(configs: Mapping[Any, Any]) -> dict[str, str]:
    for key, value in configs.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"configs of a schema registry must be str, got {key!r} and {type(value).__name__}")
    plain = {key.removeprefix(_PREFIX): value for key, value in configs.items()}
    settings = to_librdkafka(plain)
    unknown = sorted(settings.keys() - _TLS - _OWN_CONFIGS)
    if unknown:
        raise ValueError(
            f"configs of a schema registry must be {', '.join(sorted(_OWN_CONFIGS | _TLS))}, or Java's names for "
            f"TLS with files of type PEM, got {', '.join(unknown)}"
        )
    return settings


def _authorization(settings: Mapping[str, Any], url_user_info: str) -> str:
    bearer, token = settings.get(_BEARER_SOURCE, "STATIC_TOKEN"), settings.get(_TOKEN)
    if token is not None:
        if bearer != "STATIC_TOKEN":
            raise ValueError(f"{_BEARER_SOURCE} must be STATIC_TOKEN, got {bearer}")
        return f"Bearer {token}"
    user_info = settings.get(_USER_INFO, "")
    source = settings.get(_SOURCE, "USER_INFO" if user_info else "URL")
    if source not in ("USER_INFO", "URL"):
        raise ValueError(f"{_SOURCE} must be USER_INFO or URL, got {source}")
    user_info = user_info if source == "USER_INFO" else url_user_info
    if source == "USER_INFO" and ":" not in user_info:
        raise ValueError(f"{_USER_INFO} must be like user:password, got a value that is not shown")
    return basic_authorization(user_info) if user_info else ""


def _as_bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"{_REGISTERS} must be 'true' or 'false', got {text!r}")
    return text == "true"
