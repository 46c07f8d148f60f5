"""What holds for all tests."""

from __future__ import annotations

import os

# Made in the background after a first job, it would take its time from the tests that follow.
os.environ.setdefault("PENSTOCK_CLASS_ARCHIVE", "off")
