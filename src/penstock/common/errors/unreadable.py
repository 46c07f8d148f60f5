"""What msgspec raises for bytes that it can't read: not only its own errors, but those of UTF-8 and of depth, too."""

from __future__ import annotations

import msgspec

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
