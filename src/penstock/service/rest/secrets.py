"""Hide secret settings, recognized by their names and contents. Flink: GlobalConfiguration.isSensitive."""

from __future__ import annotations

import re

from penstock.common.text.secrets import NAMES, has_secret

HIDDEN = "******"
_NAMES = rf"{NAMES}|authorization"
_NAME = re.compile(_NAMES, re.IGNORECASE)
_INSIDE = re.compile(rf"(?:{_NAMES})[\w.-]*['\"]?\s*[:=]", re.IGNORECASE)
"""A value that contains such a name, as settings with maps do."""


def hide_secrets(settings: dict[str, str]) -> dict[str, str]:
    """Return the settings, with stars in place of secrets."""
    return {key: HIDDEN if _is_secret(key, value) else value for key, value in settings.items()}


def _is_secret(key: str, value: str) -> bool:
    return _NAME.search(key) is not None or _INSIDE.search(value) is not None or has_secret(value)
