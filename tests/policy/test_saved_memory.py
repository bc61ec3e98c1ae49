"""Memory as JSON, field by field. Newer operators must read the memory of older ones, so every key is spelled out here."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from fairburst.policy import memory as saved
from fairburst.policy.decide import decide
from fairburst.policy.dress.memory import DressMemory
from fairburst.policy.errors import MemoryFormatError, NewerMemoryError
from fairburst.policy.model import (
    AdmissionDecision,
    Burst,
    ClusterSnapshot,
    ConditionResult,
    GuaranteeClass,
    Memory,
    Periodic,
    PolicyConfig,
    QueueKind,
    QueueMemory,
    QueueSpec,
    Schedule,
    ScheduledBurst,
    Sporadic,
    Window,
    WindowState,
)
from tests.support.policy import snapshot, throughput
from tests.support.strategies import START, snapshots

BURST = Burst({"cpu": 4.0, "memory": 8.0}, 10.0, 20.0)
BURST_TEXT = {"resources": {"cpu": 4.0, "memory": 8.0}, "duration": 10.0, "deadline": 20.0}

FULL = QueueMemory(
    promise=QueueSpec("a/q", QueueKind.LATENCY, (5.0, "a/q"), 2.0, BURST, Periodic(100.0, 7.0, 3.0), {"cpu": 9.0}, True, True),
    guarantee_class=GuaranteeClass.SOFT,
    admission_order=3,
    decision=AdmissionDecision(
        "a/q", GuaranteeClass.SOFT, "NoRoomForRate", "a sentence",
        ConditionResult(True, 1.0, 2.0, "cpu", "b/q"), ConditionResult(True, 3.0, 4.0, "memory", "a/q"),
        ConditionResult(False, math.inf, 6.0, "gpu", "c/q"),
    ),
    window=Window(WindowState.OPEN, 12, 100.0, 103.0, 101.0, 121.0, True, True, 0.75),
    period_started=101.0, last_opened=101.0, ledger_value=1.5, ledger_rate=0.25, ledger_as_of=110.0, debt=0.5, bursts=12, met=10, missed=2,
    delivered_value=1.25, delivered_rate=0.125,
    received={"cpu": (1.0, 0.25), "memory": (0.5, 0.0)}, fair_value=2.5, fair_rate=0.75, fair_as_of=109.0, residual_level=0.375,
    waiting_since=90.0, unit_held_since=91.0, balance_value=-0.5, balance_rate=0.25, balance_as_of=92.0, recent_value=-0.375,
    refused=QueueSpec("a/q", QueueKind.LATENCY, (5.0, "a/q"), 1.0, BURST, Sporadic(50.0)),
)  # fmt: skip

FULL_TEXT: dict[str, Any] = {
    "promise": {
        "name": "a/q", "kind": "Latency", "order": [5.0, "a/q"], "weight": 2.0, "burst": BURST_TEXT,
        "arrival": {"periodic": {"period": 100.0, "first": 7.0, "jitter": 3.0}}, "limits": {"cpu": 9.0}, "suspended": True,
        "lead_time": True,
    },
    "class": "Soft",
    "decision": {
        "queue": "a/q", "class": "Soft", "reason": "NoRoomForRate", "message": "a sentence",
        "safety": [True, 1.0, 2.0, "cpu", "b/q"], "fairness": [True, 3.0, 4.0, "memory", "a/q"],
        "resource": [False, None, 6.0, "gpu", "c/q"],
    },
    "window": {
        "state": "Open", "index": 12, "arms_at": 100.0, "opens_by": 103.0, "opened": 101.0, "deadline": 121.0, "demanded": True,
        "judged": True, "behind": 0.75,
    },
    "period_started": 101.0, "last_opened": 101.0, "ledger_value": 1.5, "ledger_rate": 0.25, "ledger_as_of": 110.0, "debt": 0.5,
    "delivered_value": 1.25, "delivered_rate": 0.125,
    "received": {"cpu": [1.0, 0.25], "memory": [0.5, 0.0]}, "fair_value": 2.5, "fair_rate": 0.75, "fair_as_of": 109.0,
    "residual_level": 0.375, "waiting_since": 90.0, "unit_held_since": 91.0,
    "balance_value": -0.5, "balance_rate": 0.25, "balance_as_of": 92.0, "recent_value": -0.375,
    "refused": {
        "name": "a/q", "kind": "Latency", "order": [5.0, "a/q"], "weight": 1.0, "burst": BURST_TEXT, "arrival": {"sporadic": 50.0},
        "limits": {}, "suspended": False,
    },
    "admission_order": 3, "bursts": 12, "met": 10, "missed": 2,
}  # fmt: skip

SCHEDULED = QueueMemory(
    QueueSpec("b/q", QueueKind.LATENCY, (6.0, "b/q"), arrival=Schedule((ScheduledBurst(30.0, BURST), ScheduledBurst(60.0, BURST)))),
    None, -1, AdmissionDecision("b/q", None, "BreaksEarlierPromise", "no room", None, None, None),
    Window(WindowState.ARMED, 0, math.inf, math.inf, None, None),
)  # fmt: skip
SCHEDULED_TEXT = {
    "promise": {
        "name": "b/q", "kind": "Latency", "order": [6.0, "b/q"], "weight": 1.0, "burst": None,
        "arrival": {"schedule": [{"arrival": 30.0, "burst": BURST_TEXT}, {"arrival": 60.0, "burst": BURST_TEXT}]},
        "limits": {}, "suspended": False,
    },
    "class": None,
    "decision": {
        "queue": "b/q", "class": None, "reason": "BreaksEarlierPromise", "message": "no room", "safety": None, "fairness": None,
        "resource": None,
    },
    "window": {
        "state": "Armed", "index": 0, "arms_at": None, "opens_by": None, "opened": None, "deadline": None, "demanded": False,
        "judged": False,
    },
    "period_started": 0.0, "ledger_value": 0.0, "ledger_rate": 0.0, "ledger_as_of": 0.0, "debt": 0.0, "delivered_value": 0.0,
    "delivered_rate": 0.0, "fair_value": 0.0, "fair_rate": 0.0, "fair_as_of": 0.0, "residual_level": None, "waiting_since": None,
    "balance_value": 0.0, "balance_rate": 0.0, "balance_as_of": 0.0, "recent_value": 0.0,
    "unit_held_since": None, "refused": None, "admission_order": -1, "bursts": 0, "met": 0, "missed": 0,
}  # fmt: skip

PLAIN = QueueMemory(QueueSpec("c/q", QueueKind.THROUGHPUT, (7.0, "c/q")), GuaranteeClass.ELASTIC, 0)


class TestEveryField:
    @pytest.mark.parametrize(
        ("value", "text"), [pytest.param(FULL, FULL_TEXT, id="full"), pytest.param(SCHEDULED, SCHEDULED_TEXT, id="bare")]
    )
    def test_a_queue_is_written_and_read_key_by_key(self, value: QueueMemory, text: dict[str, Any]) -> None:
        assert saved.encode_queue(value) == text
        assert saved.decode_queue(text) == value

    def test_the_whole_is_queues_in_sorted_order_and_reads_as_it_was(self) -> None:
        memory = Memory({"c/q": PLAIN, "a/q": FULL, "b/q": SCHEDULED}, 4, dress=DressMemory(0.25))
        value = saved.encode(memory)
        assert list(value) == ["version", "nextAdmissionOrder", "queues", "dress"]
        assert (value["version"], value["nextAdmissionOrder"], list(value["queues"])) == (1, 4, ["a/q", "b/q", "c/q"])
        assert saved.decode(value) == memory
        assert saved.load(saved.dump(memory)) == memory

    def test_a_text_without_dress_is_read_without_it(self) -> None:
        memory = Memory({"c/q": PLAIN}, 1)
        assert "dress" not in saved.encode(memory)
        assert saved.decode(saved.encode(memory)).dress is None

    def test_a_periodic_queue_without_a_known_phase_has_none_when_read(self) -> None:
        spec = QueueSpec("a/q", QueueKind.LATENCY, (1.0, "a/q"), 1.0, BURST, Periodic(100.0))
        assert saved.decode_spec(saved.encode_spec(spec)) == spec

    def test_what_an_older_operator_did_not_write_has_its_default(self) -> None:
        """The order, the class and the promise are all that can't be made up."""
        text = {"promise": saved.encode_spec(PLAIN.promise), "class": "Elastic", "admission_order": 0}
        assert saved.decode_queue(text) == PLAIN

    def test_a_number_that_json_has_none_for_is_never_written(self) -> None:
        """Other programs could not read it."""
        with pytest.raises(ValueError, match="JSON compliant"):
            saved.dump(Memory({"a/q": QueueMemory(PLAIN.promise, None, 0, debt=math.nan)}))


def broken(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """A good memory with one thing changed in the queue a/q."""
    value = copy.deepcopy(saved.encode(Memory({"a/q": FULL, "b/q": SCHEDULED}, 4)))
    change(value["queues"]["a/q"])
    return value


class TestWhatIsRefused:
    """Issue 4: a corrupt or newer version is refused with a clear error and a safe fallback."""

    @pytest.mark.parametrize(
        ("change", "want"),
        [
            pytest.param(lambda queue: queue.update(debt=True), "debt: expected a number of at most 1e[+]24, found True", id="truth"),
            pytest.param(lambda queue: queue.update(fair_rate=1e25), "fair_rate: expected a number", id="too large"),
            pytest.param(lambda queue: queue.update(fair_rate=-1e25), "fair_rate: expected a number", id="too small"),
            pytest.param(lambda queue: queue.update(fair_rate="1"), "fair_rate: expected a number", id="text"),
            pytest.param(lambda queue: queue.update(met=1.0), "met: expected a whole number between -1", id="no whole number"),
            pytest.param(lambda queue: queue.update(bursts=True), "bursts: expected a whole number", id="truth for a count"),
            pytest.param(lambda queue: queue.update(missed=2**53 + 1), "missed: expected a whole number", id="too many"),
            pytest.param(lambda queue: queue.update(admission_order=-2), "admission_order: expected a whole number", id="negative order"),
            pytest.param(lambda queue: queue["window"].update(index="1"), "index: expected a whole number", id="index"),
            pytest.param(lambda queue: queue.update({"class": "Golden"}), "ValueError: 'Golden'", id="unknown class"),
            pytest.param(lambda queue: queue["promise"].update(weight=None), "weight: expected a number", id="weight"),
            pytest.param(lambda queue: queue["promise"].update(order=["x", "a/q"]), "order: expected a number", id="order"),
            pytest.param(lambda queue: queue["promise"].update(limits={"cpu": "9"}), "cpu: expected a number", id="limit"),
            pytest.param(lambda queue: queue["promise"]["burst"].update(duration="9"), "duration: expected a number", id="duration"),
            pytest.param(lambda queue: queue["promise"]["burst"].update(deadline="9"), "deadline: expected a number", id="deadline"),
            pytest.param(lambda queue: queue["promise"]["burst"].update(resources={"cpu": "9"}), "cpu: expected a number", id="amount"),
            pytest.param(lambda queue: queue["promise"].update(arrival={"sporadic": "9"}), "sporadic: expected a number", id="sporadic"),
            pytest.param(lambda queue: queue["promise"]["arrival"]["periodic"].update(period="9"), "period: expected", id="period"),
            pytest.param(lambda queue: queue["promise"]["arrival"]["periodic"].update(jitter="9"), "jitter: expected", id="jitter"),
            pytest.param(lambda queue: queue["promise"]["arrival"]["periodic"].update(first="9"), "time: expected", id="first arrival"),
            pytest.param(lambda queue: queue.update(residual_level="9"), "number: expected a number", id="residual level"),
            pytest.param(lambda queue: queue["promise"].update(name="z/q"), "expected the promise of a/q, found that of z/q", id="name"),
            pytest.param(lambda queue: queue.pop("promise"), "memory of version 1: KeyError: 'promise'", id="no promise"),
        ],
    )  # fmt: skip
    def test_a_damaged_field_is_named(self, change: Callable[[dict[str, Any]], object], want: str) -> None:
        with pytest.raises(MemoryFormatError, match=want):
            saved.decode(broken(change))

    def test_a_damaged_arrival_of_a_scheduled_burst_is_named(self) -> None:
        value = saved.encode(Memory({"b/q": SCHEDULED}))
        value["queues"]["b/q"]["promise"]["arrival"]["schedule"][1]["arrival"] = "soon"
        with pytest.raises(MemoryFormatError, match="arrival: expected a number"):
            saved.decode(value)

    def test_the_largest_numbers_are_read(self) -> None:
        largest = broken(lambda queue: queue.update(debt=1e24, ledger_value=-1e24, met=2**53, admission_order=-1))
        read = saved.decode(largest).queues["a/q"]
        assert (read.debt, read.ledger_value, read.met, read.admission_order) == (1e24, -1e24, 2**53, -1)

    @pytest.mark.parametrize("order", ["1", None, 1.5], ids=["text", "nothing", "fraction"])
    def test_a_damaged_order_for_the_next_queue_is_named(self, order: object) -> None:
        with pytest.raises(MemoryFormatError, match=" nextAdmissionOrder: expected a whole number"):
            saved.decode({"version": 1, "nextAdmissionOrder": order, "queues": {}})

    @pytest.mark.parametrize(
        ("text", "want"),
        [
            pytest.param("{", "^memory: expected JSON, found '{': ", id="cut off"),
            pytest.param("{" * 50, "found '" + "{" * 40 + "': ", id="long and cut off"),
            pytest.param('{"version": "1"}', "^memory: expected an object with a whole number `version`, found ", id="version is text"),
            pytest.param("[1]", r"^memory: expected an object with a whole number `version`, found '\[1\]'$", id="no object"),
        ],
    )
    def test_what_is_no_memory_says_what_it_is(self, text: str, want: str) -> None:
        with pytest.raises(MemoryFormatError, match=want):
            saved.load(text)

    def test_a_newer_version_says_what_to_do(self) -> None:
        text = json.dumps({"version": 2, "nextAdmissionOrder": 0, "queues": {}})
        with pytest.raises(NewerMemoryError, match=r"^memory: expected version 1 or older, found 2; run the newer operator, or delete it$"):
            saved.load(text)
        assert saved.load(saved.dump(Memory({"c/q": PLAIN}, 1))) == Memory({"c/q": PLAIN}, 1)


class TestSavedMemory:
    @given(snapshots())
    def test_what_is_read_is_what_was_written(self, value: ClusterSnapshot) -> None:
        memory = Memory()
        for now in (START, START + 3, START + 20):
            _, memory = decide(value, memory, PolicyConfig(), now)
        text = saved.dump(memory)
        assert saved.load(text) == memory
        assert saved.dump(saved.load(text)) == text

    @pytest.mark.parametrize(
        ("text", "want"),
        [
            pytest.param("", "expected JSON", id="empty"),
            pytest.param("[]", "version", id="no object"),
            pytest.param('{"version": 1}', "queues", id="no queues"),
            pytest.param('{"version": 1, "nextAdmissionOrder": 0, "queues": {"a": {}}}', "promise", id="queue without promise"),
        ],
    )
    def test_damaged_memory_is_refused_with_what_is_wrong(self, text: str, want: str) -> None:
        with pytest.raises(MemoryFormatError, match=want):
            saved.load(text)

    def test_a_number_that_is_none_names_its_field(self) -> None:
        _, memory = decide(snapshot((throughput("t/q"),), [1.0], [[1.0]]), Memory(), PolicyConfig(), START)
        value = json.loads(saved.dump(memory))
        value["queues"]["t/q"]["debt"] = "NaN"
        with pytest.raises(MemoryFormatError, match="debt"):
            saved.load(json.dumps(value))

    def test_newer_memory_is_refused(self) -> None:
        with pytest.raises(NewerMemoryError, match="found 99"):
            saved.load('{"version": 99}')
