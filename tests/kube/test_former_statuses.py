"""Statuses that earlier versions of the operator wrote: promises, windows and ledgers survive an upgrade, and the first write moves them.

tests/data/statuses: written by the code of commits 1a92e73 (first-version) and 8e323dc (before-internal), each status with the memory that
this code read back from it. Times in seconds since the epoch, "inf" for infinity, enumerations by value.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from pathlib import Path
from typing import Any

import pytest

from fairburst.kube.install.crd import all_crds
from fairburst.kube.queues.burst_history import BurstHistory
from fairburst.kube.queues.former_places import FORMER_PLACES, in_present_places
from fairburst.kube.queues.objects import parse_queue
from fairburst.kube.views.status import status_of
from fairburst.kube.views.status_memory import memory_of
from fairburst.kube.views.status_plan import StatusPlanner, merge_difference
from fairburst.policy.model import QueueMemory
from tests.kube.test_status import RESOURCES, status_input
from tests.support.fake_api import merge_patch
from tests.support.objects import WALL, stored_queue

DATA = Path(__file__).parents[1] / "data" / "statuses"
CASES = [
    pytest.param(case["status"], case["memory"], id=f"{path.stem}: {name}")
    for path in sorted(DATA.glob("*.json"))
    for name, case in json.loads(path.read_text()).items()
]
Status = dict[str, Any]


def plain(value: Any) -> Any:
    """The value as the files hold it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def recalled(status: Status) -> QueueMemory:
    memory = memory_of(stored_queue("LatencyQueue", "burst", "queue", status=status))
    assert memory is not None
    return memory


def at(status: Any, place: tuple[str, ...]) -> Any:
    for key in place:
        status = (status or {}).get(key)
    return status


@pytest.mark.parametrize(("status", "want"), CASES)
def test_every_remembered_value_is_read(status: Status, want: dict[str, Any]) -> None:
    found = plain(recalled(status))
    assert {name: found[name] for name in want} == want


@pytest.mark.parametrize(("status", "want"), CASES)
def test_the_first_write_moves_every_value_and_the_second_has_nothing_to_do(status: Status, want: dict[str, Any]) -> None:
    assert any(at(status, place) is not None for place in FORMER_PLACES)
    item = dataclasses.replace(
        status_input(recalled(status)), bursts_seen=(in_present_places(status).get("internal") or {}).get("burstsSeen")
    )
    stored = merge_patch(status, merge_difference(status, status_of(item, status, RESOURCES, WALL + 1)))
    assert [place for place in FORMER_PLACES if at(stored, place) is not None] == []
    found = plain(recalled(stored))
    assert {name: found[name] for name in want} == want
    assert merge_difference(stored, status_of(item, stored, RESOURCES, WALL + 2)) == {}


@pytest.mark.parametrize("name", ["first-version", "before-internal"])
def test_an_upgrade_moves_the_values_of_batch_queues_one_by_one(name: str) -> None:
    """It is no news for users, so it shares the rate of figures that drift."""
    status = json.loads((DATA / f"{name}.json").read_text())["batch"]["status"]
    item = status_input(recalled(status))
    item.entry.obj["status"] = status  # type: ignore[index]
    entries = [dataclasses.replace(item.entry, key=("ThroughputQueue", "burst", "queue"), uid=f"uid-{number}") for number in range(20)]
    planner = StatusPlanner(5.0, figures_per_second=1.0)
    writes, _ = planner.plan([dataclasses.replace(item, entry=entry) for entry in entries], RESOURCES, WALL + 1, 100.0)
    assert 1 <= len(writes) <= 5
    assert all(write.patch["ledger"] is None and write.patch["internal"]["ledger"] for write in writes)


@pytest.mark.parametrize(("status", "want"), CASES)
@pytest.mark.parametrize("name", all_crds())
def test_the_crds_keep_what_an_earlier_version_writes_during_an_upgrade(name: str, status: Status, want: dict[str, Any]) -> None:
    for version in all_crds()[name]["spec"]["versions"]:
        assert list(pruned(status, version["schema"]["openAPIV3Schema"]["properties"]["status"])) == []


def pruned(value: Any, schema: dict[str, Any], path: str = "status") -> Any:
    """Yield each path that the API server would drop."""
    if isinstance(value, dict):
        for key, part in value.items():
            below = schema.get("additionalProperties") or schema.get("properties", {}).get(key)
            if below is None:
                yield f"{path}.{key}"
            else:
                yield from pruned(part, below, f"{path}.{key}")
    elif isinstance(value, list):
        for part in value:
            yield from pruned(part, schema["items"], path)


def test_the_bursts_that_an_earlier_version_saw_are_not_forgotten() -> None:
    status = json.loads((DATA / "before-internal.json").read_text())["between bursts, with a refused change"]["status"]
    seen = status["uncertainty"]["of"], status["uncertainty"]["partsMilli"]
    spec = {
        "burst": {"resources": seen[0]["resources"], "durationSeconds": seen[0]["durationSeconds"]},
        "arrival": {"sporadic": {"minInterarrivalSeconds": 60}},
        "uncertainty": {"confidencePercent": 90, "fromHistory": True},
    }
    obj = stored_queue("LatencyQueue", "burst", "queue", spec, status=status)
    history = BurstHistory()
    history.asked("uid", parse_queue(obj), obj)
    kept = history.internal_part("uid")
    assert kept is not None
    assert (kept["of"], kept["partsMilli"]) == seen


def test_a_value_in_its_present_place_wins() -> None:
    status = {"debtMilliseconds": 1, "window": {"state": "Open", "judged": True}, "internal": {"debtMilliseconds": 2}}
    want = {"window": {"state": "Open"}, "internal": {"debtMilliseconds": 2, "window": {"judged": True}}}
    assert in_present_places(status) == want
    assert in_present_places(want) is want
