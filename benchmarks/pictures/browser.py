"""The dashboard's pages, photographed in Chromium: light and dark, desktop and phone."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

SIZES = {"desktop": (1200, 760), "phone": (390, 760)}
SCHEMES: tuple[Any, ...] = ("light", "dark")
COLORS = 96  # of a picture; more make no visible difference
ANSWER_MILLISECONDS = 90_000


@contextmanager
def served(command: Sequence[str], log: Path) -> Iterator[str]:
    """Run `fairburst dashboard` and yield the address that it prints."""
    with log.open("w") as output:
        running = subprocess.Popen([*command, "--port", "0"], stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 60
        while not (found := re.search(r"Dashboard at (\S+)", log.read_text())):
            if running.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"expected the dashboard's address, found {log.read_text()!r}")
            time.sleep(0.1)
        yield found[1]
    finally:
        running.terminate()
        running.wait(20)


def explain(page: Page) -> None:
    """Show the explanation of the queue's allocation."""
    page.get_by_role("button", name="Explain").click()
    page.wait_for_selector("section:last-child h3", timeout=ANSWER_MILLISECONDS)


def less_capacity(page: Page) -> None:
    """Show the effect of half of the capacity."""
    page.get_by_label("Capacity").fill("-50%")
    page.get_by_role("button", name="Try").click()
    page.wait_for_selector(".verdict", timeout=ANSWER_MILLISECONDS)


def when_it_starts(namespace: str, name: str) -> Callable[[Page], None]:
    """Return an action that shows when a Job will start."""

    def asked(page: Page) -> None:
        page.get_by_label("Namespace").fill(namespace)
        page.get_by_role("textbox", name="Job").fill(name)
        page.get_by_role("button", name="When does it start?").click()
        page.wait_for_selector(".answer, [role=alert]", timeout=ANSWER_MILLISECONDS)
        shown = page.locator(".answer, [role=alert]").all_text_contents()
        if not shown[0].startswith("In about"):
            raise RuntimeError(f"expected {namespace}/{name} to wait, found: {shown[0]}")

    return asked


def photograph(address: str, pages: dict[str, tuple[str, str, Callable[[Page], None]]], folder: Path) -> None:
    """Write `<page>-<size>-<scheme>.png` for each page, given as its hash, a selector that exists once it is drawn, and an action then."""
    chromium = next((found for name in ("chromium", "google-chrome") if (found := shutil.which(name))), None)
    if chromium is None:
        raise RuntimeError("expected a Chromium: `make browser` installs Debian's")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, (where, ready, act) in pages.items():
            for size, (width, height) in SIZES.items():
                for scheme in SCHEMES:
                    context = browser.new_context(
                        color_scheme=scheme, viewport={"width": width, "height": height}, device_scale_factor=1, ignore_https_errors=True
                    )
                    page = context.new_page()
                    page.goto(address)
                    page.goto(f"{address.partition('?')[0]}#{where}")
                    page.wait_for_selector(ready)
                    act(page)
                    page.evaluate("scrollTo(0, 0)")
                    (folder / f"{name}-{size}-{scheme}.png").write_bytes(smaller(page.screenshot(full_page=True)))
                    context.close()
        browser.close()


def smaller(picture: bytes) -> bytes:
    """Return a PNG with a palette."""
    reduced = Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
    found = io.BytesIO()
    reduced.save(found, "PNG", optimize=True)
    return found.getvalue()
