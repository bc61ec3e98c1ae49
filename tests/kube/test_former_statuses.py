"""Statuses across versions: promises, windows and ledgers survive an upgrade, and a downgrade to a version that reads them elsewhere.

tests/data/statuses: written by the code of commits 1a92e73 (first-version) and 8e323dc (before-internal), each status with the memory that
this code read back from it. Times in seconds since the epoch, "inf" for infinity, enumerations by value.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fairburst.kube.install.crd import all_crds
from fairburst.kube.queues.burst_history import BurstHistory
from fairburst.kube.queues.former_places import COPIES, FORMER_PLACES, in_present_places
from fairburst.kube.queues.objects import parse_queue
from fairburst.kube.times import to_text
from fairburst.kube.views.status import StatusInput, status_of
from fairburst.kube.views.status_memory import memory_of
from fairburst.kube.views.status_plan import StatusPlanner, merge_difference
from fairburst.policy.model import QueueMemory
from tests.support.earlier import EARLIER, Version, problem, version_at
from tests.support.fake_api import merge_patch
from tests.support.objects import WALL, stored_queue
from tests.support.status_inputs import RESOURCES, status_input

DATA = Path(__file__).parents[1] / "data" / "statuses"


def with_later_fields(memory: dict[str, Any]) -> dict[str, Any]:
    """Return the memory of an earlier version with the fields that it did not have, at their defaults."""
    return {**memory, "window": memory["window"] and {**memory["window"], "behind": 0.0}}


CASES = [
    pytest.param(case["status"], with_later_fields(case["memory"]), id=f"{path.stem}: {name}")
    for path in sorted(DATA.glob("*.json"))
    for name, case in json.loads(path.read_text()).items()
]
Status = dict[str, Any]
OPEN: Status = json.loads((DATA / "before-internal.json").read_text())["open window"]["status"]
ACCOUNTS = (
    *("ledger_value", "ledger_rate", "ledger_as_of", "delivered_value", "delivered_rate", "received"),
    *("fair_value", "fair_rate", "fair_as_of", "period_started", "debt", "residual_level", "bursts", "met", "missed"),
    *("waiting_since", "unit_held_since", "balance_value", "balance_rate", "balance_as_of", "recent_value"),
)


def plain(value: Any) -> Any:
    """Return the value in the form of the files."""
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
    item = as_input(status)
    stored = merge_patch(status, merge_difference(status, status_of(item, status, RESOURCES, WALL + 1)))
    assert [place for place in FORMER_PLACES if place not in COPIES and at(stored, place) is not None] == []
    for former, present in COPIES.items():
        if former[0] != "uncertainty":  # status_input has none
            assert at(stored, former) == at(stored, present), former
    found = plain(recalled(stored))
    assert {name: found[name] for name in want} == want
    assert merge_difference(stored, status_of(item, stored, RESOURCES, WALL + 2)) == {}


def as_input(status: Status) -> StatusInput:
    return dataclasses.replace(
        status_input(recalled(status)), bursts_seen=(in_present_places(status).get("internal") or {}).get("burstsSeen")
    )


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
    assert all("ledger" not in write.patch and write.patch["internal"]["ledger"] == status["ledger"] for write in writes)


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


class TestAWayBack:
    """A downgrade: an earlier version continues from the copies, and this version from what the earlier one wrote."""

    @pytest.mark.parametrize("commit", EARLIER.values(), ids=[name.replace(" ", "-") for name in EARLIER])
    def test_an_earlier_version_reads_what_this_one_remembers(self, commit: str, tmp_path: Path) -> None:
        """Its own code reads statuses of this version, cut to its own CRD as the API server cuts them after `helm rollback`."""
        if missing := problem(commit):
            pytest.skip(f"DOWNGRADE NOT TESTED: {missing}")
        statuses = [stored(as_input(case.values[0])) for case in CASES]
        found = read_by(version_at(commit, tmp_path), statuses)
        for status, back in zip(statuses, found, strict=True):
            want = plain(recalled(status))
            assert back is not None
            assert {name: want[name] for name in ACCOUNTS if name in back} == {name: back[name] for name in ACCOUNTS if name in back}
            assert back["window"] == (want["window"] and {name: want["window"][name] for name in back["window"]})

    def test_what_an_earlier_version_wrote_since_then_is_newer(self) -> None:
        status = stored(as_input(OPEN))
        later = {"valueMilliseconds": 9000, "rateMicro": 0, "asOf": to_text(WALL + 60)}
        window = {**status["window"], "judged": True}
        after = {**{name: value for name, value in status.items() if name != "debtMilliseconds"}, "ledger": later, "window": window}
        memory = recalled(after)
        assert (memory.ledger_value, memory.ledger_rate, memory.ledger_as_of) == (9.0, 0.0, WALL + 60)
        assert memory.debt == 0.0
        assert memory.window is not None
        assert memory.window.judged

    def test_what_an_earlier_version_wrote_before_is_not(self) -> None:
        """Its last write may arrive after this version's first one."""
        status = stored(as_input(OPEN))
        before = {"valueMilliseconds": 9000, "rateMicro": 0, "asOf": to_text(WALL - 60)}
        assert recalled({**status, "ledger": before}) == recalled(status)

    def test_a_status_that_cannot_be_compared_is_read_in_its_present_place(self) -> None:
        status = stored(as_input(OPEN))
        for ledger in ({"asOf": "soon"}, {"asOf": 3}, {}, "x", ["asOf"]):
            assert recalled({**status, "ledger": ledger}) == recalled(status)

    @pytest.mark.parametrize("name", all_crds())
    def test_the_copies_are_in_the_crds(self, name: str) -> None:
        for version in all_crds()[name]["spec"]["versions"]:
            schema = version["schema"]["openAPIV3Schema"]["properties"]["status"]
            assert [path for case in CASES for path in pruned(stored(as_input(case.values[0])), schema)] == []
            ledger = schema["properties"]["ledger"]["description"]
            assert ledger.startswith("A copy of status.internal.ledger for a downgrade")
            columns = [column["jsonPath"] for column in version["additionalPrinterColumns"]]
            assert [path for path in columns for place in COPIES if path == f".status.{'.'.join(place)}"] == []

    def test_a_status_is_hardly_larger(self) -> None:
        """The copies cost a few hundred bytes in an object of several thousand, and no write of their own (test_status.py)."""
        for case in CASES:
            status = stored(as_input(case.values[0]))
            alone = in_present_places(status)
            assert len(json.dumps(status)) <= 1.5 * len(json.dumps(alone))


def stored(item: StatusInput) -> Status:
    written: Status = json.loads(json.dumps(status_of(item, {}, RESOURCES, WALL)))
    return written


READER = """
import dataclasses, enum, json, math, sys
from fairburst.kube.install.crd import all_crds
from fairburst.kube.queues.objects import parse_status
try:
    from fairburst.kube.views.status_memory import memory_of
except ImportError:
    from fairburst.kube.views.status import memory_of

def pruned(value, schema):
    if isinstance(value, dict):
        more, known = schema.get("additionalProperties"), schema.get("properties", {})
        return {key: pruned(part, more or known[key]) for key, part in value.items() if more or key in known}
    return [pruned(part, schema["items"]) for part in value] if isinstance(value, list) else value

def plain(value):
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value

schema = next(crd for crd in all_crds().values() if crd["spec"]["names"]["kind"] == "LatencyQueue")
schema = schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
for obj in json.load(sys.stdin):
    memory = memory_of({**obj, "status": pruned(obj["status"], schema)})
    print(json.dumps(plain(memory)))
"""


def read_by(version: Version, statuses: list[Status]) -> list[dict[str, Any] | None]:
    """The memories that an earlier version's own code finds in statuses."""
    objects = [stored_queue("LatencyQueue", "burst", "queue", status=status) for status in statuses]
    ran = subprocess.run(
        [sys.executable, "-c", READER],
        input=json.dumps(objects),
        env={"PYTHONPATH": str(version.package), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]
