"""Which settings are shown as stars, by their names and by what they hold. Flink: GlobalConfiguration.isSensitive."""

from __future__ import annotations

import re

HIDDEN = "******"
_NAMES = (
    r"password|secret|token|api-?key|auth-params|basic-auth|service-key|account\.key|jaas|http-headers|credential"
    r"|access[-.]?key"
)
_NAME = re.compile(_NAMES, re.IGNORECASE)
_INSIDE = re.compile(rf"(?:{_NAMES})[\w.-]*['\"]?\s*[:=]|://[^/\s:@]*:[^/\s@]+@", re.IGNORECASE)
"""A value that has such a name within, as maps of settings have, or a URL with a password."""


def shown(settings: dict[str, str]) -> dict[str, str]:
    """The settings, with stars in the place of secrets."""
    return {key: HIDDEN if _NAME.search(key) or _INSIDE.search(value) else value for key, value in settings.items()}
