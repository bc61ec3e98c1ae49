"""What full collections of a process with very many objects look at."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from fairburst.kube import garbage
from fairburst.kube.garbage import WHOLE_SECONDS, short_collections


class Circle:
    """Refers to itself, so that only a collection frees it."""

    def __init__(self) -> None:
        self.itself: Circle | None = self


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The time, which the test may change, of a process with these collections."""
    at = [0.0]
    monkeypatch.setattr(garbage, "time", SimpleNamespace(monotonic=lambda: at[0]))
    with short_collections():
        yield at


def ended() -> weakref.ref[Circle]:
    return weakref.ref(Circle())


def test_what_is_new_is_collected(now: list[float]) -> None:
    for _ in range(3):
        circle = ended()
        gc.collect()
        assert circle() is None


def test_a_full_collection_does_not_look_at_the_survivors_of_another(now: list[float]) -> None:
    kept = [Circle() for _ in range(100_000)]
    gc.collect()
    frozen = gc.get_freeze_count()
    gc.collect()
    assert frozen >= len(kept)
    assert len(gc.get_objects()) < len(kept)


def test_a_circle_that_ends_later_is_found_within_an_hour(now: list[float]) -> None:
    circle = Circle()
    end = weakref.ref(circle)
    gc.collect()
    del circle
    gc.collect()
    assert end() is not None
    now[0] += WHOLE_SECONDS
    gc.collect()
    assert end() is None


def test_circles_that_end_later_are_found_once_memory_has_doubled(now: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = sys.getallocatedblocks()
    circle = Circle()
    end = weakref.ref(circle)
    gc.collect()
    del circle
    monkeypatch.setattr(garbage, "sys", SimpleNamespace(getallocatedblocks=lambda: 2 * blocks))
    gc.collect()
    assert end() is None


def test_a_process_that_goes_on_afterwards_collects_as_before() -> None:
    """Tests run the operator in their own process, and tools that look for an object's referrers see none that are left out."""
    callbacks = list(gc.callbacks)
    with short_collections():
        gc.collect()
        assert gc.get_freeze_count()
    assert (gc.callbacks, gc.get_freeze_count()) == (callbacks, 0)
