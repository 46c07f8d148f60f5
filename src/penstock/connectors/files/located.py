"""What names files: its text shows no password of a URL."""

from __future__ import annotations

import msgspec

from penstock.common.text.secrets import without_passwords


class Located(msgspec.Struct, frozen=True):
    """The base of structs that hold paths."""

    def __repr__(self) -> str:
        return without_passwords(super().__repr__())
