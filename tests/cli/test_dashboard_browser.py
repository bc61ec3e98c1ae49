"""The dashboard in a real browser: its pages, no barrier found by axe-core, and a thousand queues shown at once.

Needs a Chromium on the machine; `make browser` installs Debian's.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.cli.test_ask import LQ, TQ, Served, served
from tests.cli.test_eta import full
from tests.support.objects import latency_spec, stored_queue

__all__ = ["full", "served"]

CHROMIUM = next((found for name in ("chromium", "google-chrome") if (found := shutil.which(name))), None)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: `make browser` installs one")]
QUEUES = 1000
SLOWER = 3.0  # 242 ms beside 272 on two cores: most of it is the browser's start of a page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Chromium's own sandbox does not start for root, as which CI runs; the page is this test's own.
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


def instant(seconds_ahead: float) -> str:
    return datetime.fromtimestamp(time.time() + seconds_ahead, UTC).isoformat().replace("+00:00", "Z")


def decided(**more: Any) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "reason": "Decided", "message": "", "lastTransitionTime": instant(-60)}
    return {"class": "Elastic", "share": "25%", "usage": {"cpu": "8"}, "demand": {"cpu": "20"}, "conditions": [ready], **more}


@pytest.fixture
def decided_queues(served: Served) -> Served:
    """A burst that runs until its deadline, one to come, and a batch queue with waiting work."""
    window = {"state": "Open", "index": 1, "armsAt": instant(-20), "opened": instant(-10), "deadline": instant(300)}
    served.put(LQ, stored_queue("LatencyQueue", "serving", "lq", latency_spec("40"), status=decided(**{"class": "Hard", "window": window})))
    later = {"state": "Closed", "index": 2, "armsAt": instant(200), "opensBy": instant(210), "deadline": instant(400)}
    soft = decided(**{"class": "Soft", "window": later, "history": {"bursts": 5, "met": 4, "missed": 1}})
    served.put(LQ, stored_queue("LatencyQueue", "serving-2", "lq", latency_spec("40", interarrival=100), status=soft))
    waits = decided(waiting={"cpu": "12"}, explanation="12 cpu wait for <b>the fair share</b> of others.")
    served.put(TQ, stored_queue("ThroughputQueue", "batch", "tq", status=waits))
    return served


@pytest.fixture
def address(served: Served, tmp_path: Path) -> Iterator[str]:
    """A running dashboard."""
    with dashboard(served, tmp_path) as found:
        yield found


@contextmanager
def dashboard(served: Served, tmp_path: Path) -> Iterator[str]:
    """Run `fairburst dashboard`, by the command a user types."""
    log = tmp_path / "dashboard.log"
    with log.open("w") as out:
        command = [sys.executable, "-m", "fairburst.cli.main", "dashboard", "--port", "0", *served.arguments]
        running = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 60
        while not (found := re.search(r"Dashboard at (\S+)", log.read_text())):
            assert time.monotonic() < deadline, log.read_text()
            assert running.poll() is None, log.read_text()
            time.sleep(0.05)
        yield found[1]
    finally:
        running.terminate()
        running.wait(20)


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    context = browser.new_context()
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("console", lambda said: complaints.append(said.text) if said.type in {"error", "warning"} else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.goto(address)
    yield opened
    context.close()
    assert not [one for one in complaints if "400 (Bad Request)" not in one]  # a refused question; the page shows its sentence


def barriers(page: Page) -> list[Any]:
    """Return the findings of axe-core, of any impact."""
    return [(one["id"], one["impact"], one["nodes"][0]["html"]) for one in Axe().run(page).response["violations"]]


class TestPages:
    def test_now_shows_capacity_bursts_waiting_work_and_queues(self, decided_queues: Served, page: Page) -> None:
        assert decided_queues
        expect(page.get_by_role("heading", level=1)).to_have_text("Pool default")
        expect(page.locator("section", has_text="Capacity")).to_contain_text("24 of 64 cores")
        bursts = page.locator("section", has=page.get_by_role("heading", name="Bursts"))
        expect(bursts.get_by_role("img").first).to_have_attribute("aria-label", re.compile(r"open, (300 s|\d min|\d+ s) left"))
        expect(bursts).to_contain_text("4 met, 1 missed")
        expect(page.get_by_role("heading", name="Waiting work")).to_be_visible()
        # Text from the cluster is shown as text, also if a tenant writes markup.
        expect(page.get_by_text("12 cpu wait for <b>the fair share</b> of others.")).to_be_visible()
        expect(page.locator("section:last-child tbody tr")).to_have_count(3)

    def test_a_change_in_the_cluster_appears_by_itself(self, decided_queues: Served, page: Page) -> None:
        rows = page.locator("section:last-child tbody tr")
        expect(rows).to_have_count(3)
        decided_queues.put(TQ, stored_queue("ThroughputQueue", "batch", "late", status=decided()))
        expect(rows).to_have_count(4)

    def test_the_filter_keeps_its_focus_while_the_page_changes(self, decided_queues: Served, page: Page) -> None:
        page.get_by_label("Filter").press_sequentially("bat")
        expect(page.locator("section:last-child tbody tr")).to_have_count(1)
        decided_queues.put(TQ, stored_queue("ThroughputQueue", "batch", "late", status=decided()))
        expect(page.locator("section:last-child tbody tr")).to_have_count(2)
        expect(page.get_by_label("Filter")).to_be_focused()
        page.keyboard.type("ch/late")
        expect(page.get_by_label("Filter")).to_have_value("batch/late")
        expect(page.locator("section:last-child tbody tr")).to_have_count(1)

    def test_a_queue_is_reached_and_explained_by_keyboard_alone(self, decided_queues: Served, page: Page) -> None:
        assert decided_queues
        page.get_by_label("Filter").press_sequentially("serving-2")
        page.locator("section:last-child tbody a").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_contain_text("serving-2/lq")
        page.get_by_role("button", name="Explain").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_text("LatencyQueue serving-2/lq: ")).to_be_visible(timeout=30_000)
        expect(page.get_by_text("with 24 cores left")).to_be_visible()

    def test_what_if_says_who_would_lose_and_refuses_in_a_sentence(self, decided_queues: Served, page: Page) -> None:
        assert decided_queues
        page.get_by_role("link", name="What if").click()
        page.get_by_label("Capacity").fill("-75%")
        page.get_by_role("button", name="Try").click()
        expect(page.get_by_role("region", name="Changes")).to_contain_text("serving/lq", timeout=30_000)
        page.get_by_label("Capacity").fill("lots")
        page.get_by_role("button", name="Try").click()
        expect(page.get_by_role("alert")).to_contain_text("lots")

    def test_a_job_that_does_not_exist_is_said(self, decided_queues: Served, page: Page) -> None:
        assert decided_queues
        page.get_by_role("link", name="A Job").click()
        page.get_by_label("Namespace").fill("batch")
        page.get_by_role("textbox", name="Job").fill("none")
        page.get_by_role("button", name="When does it start?").click()
        expect(page.get_by_role("alert")).to_contain_text("none")

    def test_an_address_without_the_secret_shows_what_to_do(self, browser: Browser, address: str) -> None:
        context = browser.new_context()
        stranger = context.new_page()
        stranger.goto(address.partition("?")[0])
        expect(stranger.locator("body")).to_contain_text("Open the address that `fairburst dashboard` has printed")
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 900), (390, 844)], ids=["desktop", "phone"])
def test_no_page_has_a_barrier_or_needs_sideways_scrolling(
    decided_queues: Served, browser: Browser, address: str, scheme: Any, size: tuple[int, int]
) -> None:
    assert decided_queues
    context = browser.new_context(color_scheme=scheme, viewport={"width": size[0], "height": size[1]})
    page = context.new_page()
    page.goto(address)
    for where, ready in (("/", "tbody tr"), ("/queue/LatencyQueue/serving/lq", "button"), ("/what-if", "form"), ("/job", "form")):
        page.goto(f"{address.partition('?')[0]}#{where}")
        page.wait_for_selector(ready)
        assert barriers(page) == [], where
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth"), where
        cut = "[...document.querySelectorAll('.scroll')].some((one) => one.scrollWidth > one.clientWidth)"
        assert not page.evaluate(cut), f"{where}: a table is cut off"
    context.close()


@pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
def test_a_waiting_jobs_start_is_drawn_and_its_address_can_be_passed_on(full: Served, browser: Browser, tmp_path: Path, width: int) -> None:
    with dashboard(full, tmp_path) as address:
        root = address.partition("?")[0]
        page = browser.new_context(viewport={"width": width, "height": 800}).new_page()
        page.goto(address)
        page.get_by_role("link", name="A Job").click()
        page.get_by_label("Namespace").fill("batch")
        page.get_by_role("textbox", name="Job").fill("next")
        page.get_by_role("button", name="When does it start?").click()
        expect(page.locator(".answer")).to_contain_text("In about", timeout=60_000)
        expect(page.get_by_role("img", name=re.compile(r"90 % sure: .*; 50 % sure: .*"))).to_be_visible()
        assert barriers(page) == []
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert page.url == f"{root}#/job/batch/next"
        page.goto(f"{root}#/")
        page.goto(f"{root}#/job/batch/runs")
        expect(page.locator(".answer")).to_have_text("It has started.", timeout=60_000)


def test_a_thousand_queues_are_shown_nearly_as_soon_as_three(served: Served, browser: Browser, address: str) -> None:
    few = min(shown_after(browser, address, 3) for _ in range(3))
    for number in range(QUEUES - 3):
        served.put(TQ, stored_queue("ThroughputQueue", f"team-{number}", "tq", status=decided()))
    shown_after(browser, address, QUEUES)  # waits until the dashboard has seen them all
    many = min(shown_after(browser, address, QUEUES) for _ in range(3))
    print(f"first page: {few:.0f} ms with 3 queues, {many:.0f} ms with {QUEUES}")
    assert many <= SLOWER * few


def shown_after(browser: Browser, address: str, queues: int) -> float:
    """Milliseconds from the first request until the first page lists its queues."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(address)
    page.get_by_text(f"{queues} of {queues}").first.wait_for()  # a function as a text is evaluated, which the page's policy forbids
    found = page.evaluate("performance.now()")
    context.close()
    return float(found)
