"""A terminal recording as one animated SVG: it types each command, shows its output, and starts again.

The file is self-contained: no script, no font and no address. It has its own dark background, so it looks the same on light and dark pages.
With animation off it shows the first command and its output.
"""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from rich.style import Style
from rich.text import Text

COLUMNS = 80
CHARACTER, LINE, MARGIN, TITLE = 8.43, 19, 16, 30
TYPED_SECONDS, PAUSE_SECONDS, LINE_SECONDS, SHORTEST_SECONDS, LONGEST_WAIT_SECONDS = 0.045, 0.5, 0.4, 4.0, 1.5
GROUND, BAR, INK, DIM, PROMPT = "#161b22", "#21262d", "#e6edf3", "#9aa4af", "#7ee787"
# By the number of a terminal's colour. The colours 8 to 15 are brighter forms of these.
COLORS = {
    1: ("red", "#ff7b72"),
    2: ("green", "#7ee787"),
    3: ("yellow", "#e3b341"),
    4: ("blue", "#79c0ff"),
    5: ("magenta", "#d2a8ff"),
    6: ("cyan", "#76e3ea"),
}


@dataclass(frozen=True, slots=True)
class Screen:
    """A command and its output, which came within `seconds`."""

    command: str
    lines: tuple[Text, ...]
    seconds: float


def record(command: str, program: Sequence[str], environment: Mapping[str, str], folder: Path) -> Screen:
    """Run `program` on a terminal of 80 columns, and show it as `command`, which a user types. Any exit status is accepted."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    given = {**environment, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    began = time.monotonic()
    running = subprocess.Popen(program, stdin=theirs, stdout=theirs, stderr=theirs, env=given, cwd=folder)
    os.close(theirs)
    said = b""
    try:
        while chunk := os.read(ours, 65536):
            said += chunk
    except OSError:
        pass  # Linux reports a closed other end so
    finally:
        os.close(ours)
        running.wait(60)
    text = said.decode().replace("\r\n", "\n").rstrip("\n")
    return Screen(command, tuple(wrapped(text)), time.monotonic() - began)


def wrapped(text: str) -> Iterator[Text]:
    """Yield lines of the terminal's width: longer lines are wrapped, as on a terminal."""
    for line in text.split("\n"):
        found = Text.from_ansi(line)
        yield from found.divide(range(COLUMNS, len(found), COLUMNS))


def svg(screens: Sequence[Screen], title: str) -> str:
    """Return the recording. Screens follow each other, each on an empty terminal."""
    rows = max(len(screen.lines) for screen in screens) + 1
    width, height = round(2 * MARGIN + COLUMNS * CHARACTER), TITLE + 2 * MARGIN + rows * LINE
    clip = f'<clipPath id="w"><rect x="2" width="{width - 4}" height="{height}"/></clipPath>'
    starts, end = [], 0.0
    for screen in screens:
        starts.append(end)
        end += _typing(screen) + _shown(screen)
    styles, drawn = [], []
    for number, (screen, start) in enumerate(zip(screens, starts, strict=True)):
        leaves = starts[number + 1] if number + 1 < len(starts) else end
        styles.append(_style(number, screen, start, leaves, end))
        drawn.append(_drawn(number, screen))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">',
            f"<title>{escape(title)}</title>",
            "<style>",
            "text{font:14px ui-monospace,SFMono-Regular,Menlo,'DejaVu Sans Mono','Liberation Mono',monospace;white-space:pre;"
            + f"fill:{INK}}}",
            ".b{font-weight:700}.d{fill:" + DIM + "}.p{fill:" + PROMPT + "}.s{opacity:0}.s0{opacity:1}",
            *(f".{name}{{fill:{color}}}" for name, color in COLORS.values()),
            "@media (prefers-reduced-motion:no-preference){",
            *styles,
            "}",
            "</style>",
            f'<rect width="{width}" height="{height}" rx="9" fill="{GROUND}"/>',
            f'<path d="M0 {TITLE}V9a9 9 0 0 1 9-9H{width - 9}a9 9 0 0 1 9 9v{TITLE - 9}z" fill="{BAR}"/>',
            *(f'<circle cx="{18 + 18 * at}" cy="{TITLE / 2:g}" r="5" fill="{DIM}" opacity=".5"/>' for at in range(3)),
            clip,
            '<g clip-path="url(#w)">',
            *drawn,
            "</g>",
            "</svg>\n",
        ]
    )


def _typing(screen: Screen) -> float:
    return PAUSE_SECONDS + TYPED_SECONDS * len(screen.command) + min(screen.seconds, LONGEST_WAIT_SECONDS)


def _shown(screen: Screen) -> float:
    return max(SHORTEST_SECONDS, LINE_SECONDS * len(screen.lines))


def _style(number: int, screen: Screen, start: float, leaves: float, end: float) -> str:
    """Return keyframes: the screen is visible from its start until the next; its cover moves off the command; then its output appears."""

    def at(seconds: float) -> str:
        return f"{100 * seconds / end:.3f}%"

    typed = start + PAUSE_SECONDS + TYPED_SECONDS * len(screen.command)
    answered = start + _typing(screen)
    steps = f"animation-timing-function:steps({len(screen.command)})"

    def visible(name: str, since: float) -> str:
        frames = (
            f"0%{{opacity:0}}{at(since)}{{opacity:1}}{at(leaves)}{{opacity:0}}" if since else f"0%{{opacity:1}}{at(leaves)}{{opacity:0}}"
        )
        return f".{name}{{opacity:0;animation:{name} {end:.2f}s step-end infinite}}@keyframes {name}{{{frames}}}"

    return (
        visible(f"s{number}", start)
        + visible(f"o{number}", answered)
        + f".c{number}{{animation:c{number} {end:.2f}s linear infinite}}"
        + f"@keyframes c{number}{{0%,{at(start + PAUSE_SECONDS)}{{transform:none;{steps}}}"
        + f"{at(typed)},100%{{transform:translateX({len(screen.command) * CHARACTER:.1f}px)}}}}"
    )


def _drawn(number: int, screen: Screen) -> str:
    top = TITLE + MARGIN + LINE - 5
    start = MARGIN + 2 * CHARACTER
    # A cover of a line's size, with the cursor at its front, moves off the command as it is typed. Without animation it is right of it.
    cover = (
        f'<g class="c{number}" transform="translate({len(screen.command) * CHARACTER:.1f} 0)">'
        f'<rect x="{start:.1f}" y="{top - 14}" width="{(COLUMNS - 3) * CHARACTER:.0f}" height="{LINE}" fill="{GROUND}"/>'
        f'<rect x="{start:.1f}" y="{top - 13}" width="{CHARACTER:.1f}" height="16" fill="{DIM}"/></g>'
    )
    command = f'<text x="{MARGIN}" y="{top}"><tspan class="p">$</tspan> <tspan class="b">{escape(screen.command)}</tspan></text>'
    lines = [
        f'<text x="{MARGIN}" y="{top + (row + 1) * LINE}">{_spans(line)}</text>'
        for row, line in enumerate(screen.lines)
        if line.plain.strip()
    ]
    return f'<g class="s s{number}">{command}{cover}<g class="o{number}">{"".join(lines)}</g></g>'


def _spans(line: Text) -> str:
    """Return a line as runs of characters with one style each."""
    styles = [Style.null()] * len(line.plain)
    for span in line.spans:
        style = span.style if isinstance(span.style, Style) else Style.parse(span.style)
        for at in range(span.start, min(span.end, len(styles))):
            styles[at] += style
    runs, began = [], 0
    for at in range(1, len(styles) + 1):
        if at == len(styles) or styles[at] != styles[began]:
            runs.append(_run(line.plain[began:at], styles[began]))
            began = at
    return "".join(runs).rstrip()


def _run(text: str, style: Style) -> str:
    number = style.color.number if style.color else None
    color, _ = COLORS.get((number or 0) % 8, ("", ""))
    names = " ".join(name for name, there in (("b", style.bold), ("d", style.dim), (color, color)) if there)
    return f'<tspan class="{names}">{escape(text)}</tspan>' if names else escape(text)
