"""A map of ships as SVG: where each was seen last, and where some went dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from penstock_examples.patterns.dark_ships import Position

WIDTH, MARGIN = 900, 20
"""In pixels; the height follows from the area."""


def svg(seen: Sequence[Position], dark: Iterable[Position]) -> str:
    """Return a map of the area of the ships in `seen`, gray dots, with a red dot for each in `dark`."""
    west, east = min(one.longitude for one in seen), max(one.longitude for one in seen)
    south, north = min(one.latitude for one in seen), max(one.latitude for one in seen)
    scale = (WIDTH - 2 * MARGIN) / max(east - west, north - south, 0.01)
    height = round((north - south) * scale) + 2 * MARGIN

    def dot(one: Position, radius: int, style: str) -> str:
        x, y = MARGIN + (one.longitude - west) * scale, MARGIN + (north - one.latitude) * scale
        at = datetime.fromtimestamp(one.time_ms / 1000, UTC)
        title = f"<title>{one.ship}, last seen {at:%Y-%m-%d %H:%M} UTC</title>"
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" {style}>{title}</circle>'

    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">',
            f'<rect width="{WIDTH}" height="{height}" fill="#e8f1f5"/>',
            *(dot(one, 2, 'fill="#8aa0ad"') for one in seen),
            *(dot(one, 5, 'fill="#c8342b"') for one in dark),
            "</svg>",
        ]
    )
