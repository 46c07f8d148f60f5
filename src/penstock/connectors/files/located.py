"""Base of structs that contain paths: their text hides passwords in URLs."""

from __future__ import annotations

import msgspec

from penstock.common.text.secrets import without_secrets


class Located(msgspec.Struct, frozen=True):
    """Base of structs that contain paths."""

    def __repr__(self) -> str:
        return without_secrets(super().__repr__())
