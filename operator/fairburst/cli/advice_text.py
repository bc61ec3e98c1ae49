"""Advice as a sentence, and as the command that applies it."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairburst.policy.model import QueueSpec
    from fairburst.whatif.advice import Advice

_FIELDS = ("weight", "burst", "arrival", "limits", "suspended")


def as_data(advice: Advice, spec: QueueSpec, nodes: int = 0, window_seconds: int = 0) -> dict[str, Any]:
    """Return one piece of advice: `change` as a sentence, `command` to run, `patch` of the queue's spec (None if the pool changes).

    nodes: of the pool now; 0: not known. window_seconds: how long capacity must exist before promises count it; 0: not known.
    """
    granted = advice.granted.value if advice.granted is not None else None
    if advice.spec is None:
        more = advice.factor - 1
        count = math.ceil(more * nodes)
        about = f", about {count} more node{'s' * (count > 1)} like those there are" if nodes else ""
        counted = f"; promises count it after {window_seconds} s" if window_seconds else ""
        change = f"{more:.1%} more capacity in the pool{about}{counted}"
        return {"knob": advice.knob, "change": change, "class": granted, "patch": None, "command": None}
    patch = spec_patch(spec, advice.spec)
    namespace, _, name = spec.name.partition("/")
    words = ("kubectl", "patch", f"{spec.kind.value.lower()}queue", name, "-n", namespace, "--type", "merge", "-p")
    command = f"{shlex.join(words)} {shlex.quote(json.dumps({'spec': patch}))}"
    return {"knob": advice.knob, "change": _words(spec, patch), "class": granted, "patch": patch, "command": command}


def spec_patch(before: QueueSpec, after: QueueSpec) -> dict[str, Any]:
    """Return the merge patch of spec that turns one declaration into the other."""
    from fairburst.kube.queues.core_values import promise_to_status  # noqa: PLC0415  keeps `fairburst --help` quick

    old, new = promise_to_status(before), promise_to_status(after)
    return {name: _difference(old.get(name), new.get(name)) for name in _FIELDS if old.get(name) != new.get(name)}


def _difference(old: Any, new: Any) -> Any:
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return new
    changed = {name: _difference(old.get(name), value) for name, value in new.items() if old.get(name) != value}
    return changed | {name: None for name in old if name not in new}


def _words(before: QueueSpec, patch: Mapping[str, Any]) -> str:
    from fairburst.kube.queues.core_values import promise_to_status  # noqa: PLC0415

    old = promise_to_status(before)
    if isinstance((patch.get("arrival") or {}).get("schedule"), Mapping):
        return "every scheduled burst smaller, as in the command"
    return ", ".join(f"{path} {was} -> {now}" for path, was, now in _leaves(old, patch))


def _leaves(old: Any, patch: Mapping[str, Any], path: str = "") -> list[tuple[str, Any, Any]]:
    found = []
    for name, value in patch.items():
        was = old.get(name) if isinstance(old, Mapping) else None
        if isinstance(value, Mapping):
            found += _leaves(was, value, f"{path}{name}.")
        else:
            found.append((f"{path}{name}", _plain(was), _plain(value)))
    return found


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value
