"""Format the newest decision of a job's autoscaler."""

from __future__ import annotations

from typing import Any

from penstock.common.text.quantities import as_duration


def as_decision(newest: dict[str, Any], now_ms: int) -> str:
    """Format a decision in one line. `newest` has the fields of Autoscaled, as a job answers them."""
    decision = newest["decision"]
    changes = [f"{one['name']} {one['before']} → {one['after']}" for one in decision["vertices"]]
    ago = f"autoscaler {as_duration(now_ms - decision['at_ms'])} ago"
    what = "; ".join([", ".join(changes)] * bool(changes) + decision["notes"])
    why = f" ({newest['why']})" if newest["why"] else ""
    return f"{ago}: {what}" if newest["done"] else f"{ago}, not done: {what}{why}"
