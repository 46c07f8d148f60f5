"""What msgspec raises for bytes that it can't read. Texts that are no UTF-8 are no `MsgspecError` of its."""

from __future__ import annotations

import msgspec

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError)
