"""The newest decision of a job's autoscaler, as commands show it."""

from __future__ import annotations

from typing import Any

from penstock.common.text.quantities import as_duration


def as_decision(newest: dict[str, Any], now_ms: int) -> str:
    """One line. `newest`: as a job answers it, see Autoscaled."""
    decision = newest["decision"]
    changes = [f"{one['name']} {one['before']} → {one['after']}" for one in decision["vertices"]]
    ago = f"autoscaler {as_duration(now_ms - decision['at_ms'])} ago"
    what = "; ".join([", ".join(changes)] * bool(changes) + decision["notes"])
    why = f" ({newest['why']})" if newest["why"] else ""
    return f"{ago}: {what}" if newest["done"] else f"{ago}, not done: {what}{why}"
