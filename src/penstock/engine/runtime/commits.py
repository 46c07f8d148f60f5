"""What the sinks of a task have prepared for a checkpoint."""

from __future__ import annotations

from typing import Any

Commits = list[tuple[int, list[Any]]]
"""By sink: what is to be committed when the checkpoint is complete. It travels to the coordinator, pickled."""
