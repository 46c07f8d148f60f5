"""Which settings are shown as stars, by their names and by what they hold. Flink: GlobalConfiguration.isSensitive."""

from __future__ import annotations

import re

from penstock.common.text.secrets import NAMES, has_password

HIDDEN = "******"
_NAMES = rf"{NAMES}|authorization"
_NAME = re.compile(_NAMES, re.IGNORECASE)
_INSIDE = re.compile(rf"(?:{_NAMES})[\w.-]*['\"]?\s*[:=]", re.IGNORECASE)
"""A value that has such a name within, as maps of settings have."""


def shown(settings: dict[str, str]) -> dict[str, str]:
    """The settings, with stars in the place of secrets."""
    return {key: HIDDEN if _is_secret(key, value) else value for key, value in settings.items()}


def _is_secret(key: str, value: str) -> bool:
    return _NAME.search(key) is not None or _INSIDE.search(value) is not None or has_password(value)
