"""All modes of enforcement. To add one, add its module to this package and list it in `MODES`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairburst.kube.modes import gate, observe, quota, suspend
from fairburst.kube.modes.mode import Mode

MODES: dict[str, Mode] = {mode.name: mode for mode in (quota.MODE, gate.MODE, suspend.MODE, observe.MODE)}
DEFAULT = quota.MODE
HELD_KINDS = sorted({mode.holds for mode in MODES.values() if mode.holds is not None})  # of objects that wait for a release


def registered(name: str) -> str:
    """Return the name of a mode. Raises ValueError if no mode has it."""
    if name not in MODES:
        *names, last = (repr(known) for known in MODES)
        raise ValueError(f"expected {', '.join(names)} or {last}")
    return name


def mode_of(spec: Any) -> Mode:
    """Return the mode that a queue's spec names, as written; the default if it names none that exists."""
    named = spec.get("enforcement") if isinstance(spec, Mapping) else None
    return MODES.get(named, DEFAULT) if isinstance(named, str) else DEFAULT
