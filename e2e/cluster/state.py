"""The state files of this user's clusters, by which any later command finds the processes of a cluster."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from e2e.cluster.cache import clusters_folder
from e2e.cluster.components import Layout, Options, Plan, Ports
from e2e.cluster.errors import ClusterError, nearest
from e2e.cluster.processes import ProcessIdentity

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?")


@dataclass(slots=True)
class State:
    """A cluster's plan, its processes by component, and the process that stops it; no owner for a cluster that is kept."""

    plan: Plan
    owner: ProcessIdentity | None
    processes: dict[str, ProcessIdentity] = field(default_factory=dict)

    def save(self) -> None:
        """Replace the state file as a whole, so that no reader sees a part of it."""
        plan = self.plan
        state = {
            "binaries": {component: str(path) for component, path in plan.binaries.items()},
            "ports": asdict(plan.ports),
            "options": asdict(plan.options),
            "tokens": plan.tokens,
            "processes": {component: asdict(identity) for component, identity in self.processes.items()},
            "owner": asdict(self.owner) if self.owner else None,
        }
        unfinished = plan.layout.state.with_suffix(".new")
        unfinished.write_text(json.dumps(state, indent=1))
        unfinished.replace(plan.layout.state)


def cluster_names() -> list[str]:
    """Return the names of all clusters of this machine's user."""
    return sorted(path.parent.name for path in clusters_folder().glob("*/state.json"))


def layout_of(name: str) -> Layout:
    """Return the files of the cluster of that name, which need not exist. Raises ClusterError for a malformed name."""
    if not NAME.fullmatch(name):
        raise ClusterError(f"a cluster's name is up to 42 lower-case letters, digits and inner dashes, found {name!r}")
    return Layout(clusters_folder() / name)


def load_state(name: str) -> State:
    """Read the state of the cluster of that name.

    Raises
    ------
    ClusterError : no such cluster runs, or its state is of another version.
    """
    layout = layout_of(name)
    if not layout.state.exists():
        raise ClusterError(f"no cluster {nearest(name, cluster_names())}; start it with `python -m e2e.cluster up --name {name}`")
    try:
        return _decode(layout, json.loads(layout.state.read_text()))
    except (ValueError, KeyError, TypeError) as error:
        raise ClusterError(f"{layout.state}: not a state that this version writes ({error!r}); end its processes and remove it") from error


def _decode(layout: Layout, state: dict[str, Any]) -> State:
    binaries = {component: Path(path) for component, path in state["binaries"].items()}
    options: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in state["options"].items()}
    return State(
        Plan(binaries, layout, Ports(**state["ports"]), Options(**options), state["tokens"]),
        ProcessIdentity(**state["owner"]) if state["owner"] else None,
        {component: ProcessIdentity(**identity) for component, identity in state["processes"].items()},
    )
