"""A mode's properties agree with each other, and a queue is enforced by the mode that it names."""

from __future__ import annotations

from typing import Any

import pytest

from fairburst.kube.modes.mode import Mode
from fairburst.kube.modes.registry import DEFAULT, MODES, mode_of


@pytest.mark.parametrize("mode", MODES.values(), ids=lambda mode: mode.name)
def test_a_quota_without_limits_grants_nothing_beside_the_gate(mode: Mode) -> None:
    if mode.unlimited:
        assert not mode.entitled
        assert not mode.divided
    if not mode.enforced:
        assert (mode.holds, mode.entitled, mode.divided) == (None, False, False)


@pytest.mark.parametrize("spec", [None, {}, {"enforcement": None}, {"enforcement": ["Gate"]}, {"enforcement": "Unheard"}, "Gate"])
def test_a_spec_that_names_no_mode_is_enforced_by_the_default(spec: Any) -> None:
    assert mode_of(spec) is DEFAULT
