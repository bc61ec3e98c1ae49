"""Horizontal bars with their spread, as a small SVG that is legible on light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

WIDTH, LABEL, LINE, TOP = 760, 190, 26, 36
OURS, OTHERS, MARK = "#1f77b4", "#8c8c8c", "#d62728"


def bars(title: str, rows: Sequence[tuple[str, float, float, float]]) -> str:
    """Return a chart of (name, least, median, most). An infinite median is a bar to the edge, labelled "never"."""
    finite = [abs(value) for row in rows for value in row[1:] if math.isfinite(value)]
    room, largest = WIDTH - LABEL - 90, max([*finite, 1e-9])
    zero = LABEL + (room * _lowest(rows) / (largest + _lowest(rows)) if _lowest(rows) else 0.0)
    scale = (LABEL + room - zero) / largest
    height = TOP + LINE * len(rows) + 10
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        'font-family="sans-serif" font-size="13" fill="#666">',
        f'<text x="10" y="20" font-weight="bold">{escape(title)}</text>',
    ]
    for index, (name, least, median, most) in enumerate(rows):
        y = TOP + LINE * index
        color = OURS if name.startswith("fairburst") else OTHERS
        length = (largest if math.isinf(median) else median) * scale
        out.append(f'<text x="{LABEL - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>')
        start = min(zero, zero + length)
        out.append(f'<rect x="{start:.1f}" y="{y + 3}" width="{max(abs(length), 0.5):.1f}" height="15" fill="{color}"/>')
        if math.isfinite(least) and math.isfinite(most) and most > least:
            out.append(f'<path d="M{zero + least * scale:.1f} {y + 10.5}H{zero + most * scale:.1f}" stroke="{MARK}" stroke-width="2"/>')
        text = "never" if math.isinf(median) else f"{median:.3g}"
        end = max(zero + length, zero + (most if math.isfinite(most) else largest) * scale)
        out.append(f'<text x="{end + 6:.1f}" y="{y + 14}">{text}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def _lowest(rows: Sequence[tuple[str, float, float, float]]) -> float:
    """Return how far the values reach below zero."""
    return max(0.0, -min(row[1] for row in rows))
