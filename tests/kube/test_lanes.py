"""Lanes of further queues, and the spaces that they divide a namespace into."""

from __future__ import annotations

from typing import Any

import pytest

from fairburst.kube.names import LANES, LANES_HOLD_LABEL
from fairburst.kube.queues.lanes import LONGEST_LABEL, kind_held, lane_labels, lanes_for
from fairburst.kube.queues.queue_set import ObjectKey, QueueSet, QueueSetBuilder
from fairburst.kube.queues.spaces import Spaces, namespace_of
from fairburst.policy.model import Memory
from tests.support.objects import latency_spec, stored_queue

LQ, TQ = "LatencyQueue", "ThroughputQueue"
TEAM = Spaces({"team": {"nightly": 1, "weekly": 3}})


def made(*queues: tuple[str, str, dict[str, Any] | None]) -> dict[ObjectKey, dict[str, Any]]:
    """Queues of one namespace, each created a second after the one before it."""
    return {
        (kind, "team", name): stored_queue(kind, "team", name, spec, created=f"2026-01-01T00:00:{second:02}Z")
        for second, (kind, name, spec) in enumerate(queues)
    }


def build(objects: dict[ObjectKey, dict[str, Any]], labels: dict[str, str] | None = None) -> QueueSet:
    builder = QueueSetBuilder("default", "fairburst-system")
    builder.lanes.prepare(Spaces(), {"team": labels or {}}, lambda _: (), assigns=True)
    return builder.build(objects, Memory(), frozenset())


BURSTS = (LQ, "bursts", latency_spec())


def problem(queue_set: QueueSet, name: str) -> tuple[str, str]:
    found = next(entry.problem for entry in queue_set.entries if entry.key[2] == name)
    assert found is not None
    return found.reason, found.message


def test_a_pod_belongs_to_the_queue_of_its_class_and_any_other_to_the_default_queue() -> None:
    assert TEAM.of_class("team", "fairburst-queue-3") == "team/weekly"
    assert TEAM.of_class("team", "fairburst-queue-2") == "team", "a lane that no queue has"
    assert TEAM.of_class("team", "fairburst-hard") == "team"
    assert TEAM.of_class("rival", "fairburst-queue-3") == "rival", "a lane of another namespace"


def test_a_label_asks_for_a_queue_of_its_own_namespace_only() -> None:
    assert TEAM.of_queue("team", "weekly") == "team/weekly"
    assert TEAM.of_queue("team", "missing") == TEAM.of_queue("team", "") == "team"
    assert TEAM.of_queue("rival", "weekly") == "rival"


def test_a_touched_space_touches_all_of_its_namespace() -> None:
    assert TEAM.whole({"team/weekly", "rival"}) == {"team", "team/nightly", "team/weekly", "rival"}
    assert namespace_of("team/weekly") == namespace_of("team") == "team"


def test_a_queue_keeps_its_lane_and_another_gets_the_lowest_free_one() -> None:
    assert lanes_for(["a", "b", "c"], {"b": 1}, ()) == {"a": 2, "b": 1, "c": 3}


def test_a_lane_in_which_pods_of_a_former_queue_live_is_given_last() -> None:
    assert lanes_for(["a"], {}, {1, 2}) == {"a": 3}
    assert lanes_for(["a"], {}, set(LANES)) == {"a": 1}


def test_labels_name_the_queue_of_each_lane_and_take_off_the_others() -> None:
    labels = lane_labels({"nightly": 2})
    assert labels["fairburst.dev/queue-2"] == "nightly"
    assert [value for label, value in labels.items() if label != "fairburst.dev/queue-2"] == [None] * len(LANES)


def test_a_label_says_which_lanes_hold_which_new_objects() -> None:
    lanes = {f"queue-{lane}": lane for lane in LANES}
    label = lane_labels(lanes, {"queue-3": "Pods", "queue-1": "Jobs"})[LANES_HOLD_LABEL]
    assert label == "1-Jobs.3-Pods"
    assert [kind_held(label, lane) for lane in (1, 2, 3)] == ["Jobs", None, "Pods"]
    assert kind_held("", 1) is None
    longest = lane_labels(lanes, dict.fromkeys(lanes, "Pods"))[LANES_HOLD_LABEL]
    assert longest is not None
    assert len(longest) <= LONGEST_LABEL


def test_throughput_queues_beside_a_latency_queue_get_spaces_of_their_own() -> None:
    queue_set = build(made(BURSTS, (TQ, "nightly", None), (TQ, "weekly", None)))
    assert {entry.qualified_name: (entry.space, entry.lane) for entry in queue_set.governing} == {
        "team/bursts": ("team", None),
        "team/nightly": ("team/nightly", 1),
        "team/weekly": ("team/weekly", 2),
    }


def test_of_queues_created_in_one_second_the_latency_queue_is_the_default_queue_whatever_their_names() -> None:
    """One manifest with both, applied at once."""
    created = "2026-01-01T00:00:00Z"
    spec = latency_spec()
    queues = [stored_queue(TQ, "team", "batch", None, created=created), stored_queue(LQ, "team", "serving", spec, created=created)]
    queue_set = build({(one["kind"], "team", one["metadata"]["name"]): one for one in queues})
    assert {entry.qualified_name: entry.space for entry in queue_set.governing} == {
        "team/serving": "team",
        "team/batch": "team/batch",
    }


def test_a_latency_queue_that_comes_second_is_told_how_to_have_both() -> None:
    queue_set = build(made((TQ, "nightly", None), BURSTS))
    reason, message = problem(queue_set, "bursts")
    assert reason == "SecondQueue"
    assert "Delete ThroughputQueue nightly and create it again" in message


def test_one_queue_divides_nothing() -> None:
    queue_set = build(made(BURSTS))
    assert not queue_set.spaces.lanes
    assert [entry.space for entry in queue_set.governing] == ["team"]


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        pytest.param((TQ, "batch", None), BURSTS, "besides it, only ThroughputQueues can govern work", id="a second latency queue"),
        pytest.param(BURSTS, (TQ, "n" * 64, None), "at most 63 characters", id="a name that no label holds"),
        pytest.param(BURSTS, (TQ, "bursts", None), "under this name", id="the default queue's name"),
    ],
)
def test_a_queue_that_can_govern_no_work_beside_another_is_told_why(first: Any, second: Any, says: str) -> None:
    queue_set = build(made(first, second))
    told = next(entry.problem for entry in queue_set.entries if entry.key[0] == second[0] and entry.key[2] == second[1])
    assert told is not None
    assert told.reason == "SecondQueue"
    assert says in told.message
    assert len(queue_set.governing) == 1
    assert not queue_set.spaces.lanes


@pytest.mark.parametrize("default", ["Quota", "Gate", "Suspend"])
@pytest.mark.parametrize("further", ["Quota", "Gate", "Suspend"])
def test_each_queue_of_a_namespace_has_a_mode_of_its_own(default: str, further: str) -> None:
    queue_set = build(made((LQ, "bursts", latency_spec(enforcement=default)), (TQ, "nightly", {"enforcement": further})))
    assert {entry.space: entry.mode.name for entry in queue_set.governing} == {"team": default, "team/nightly": further}


@pytest.mark.parametrize(
    ("first", "second", "refused", "says"),
    [
        pytest.param("Observe", "Quota", "bursts", "ThroughputQueue nightly already governs", id="the default queue"),
        pytest.param("Quota", "Observe", "nightly", "to be enforced, found enforcement: Observe", id="a further queue"),
    ],
)
def test_a_queue_that_is_only_observed_divides_no_namespace(first: str, second: str, refused: str, says: str) -> None:
    """The enforced one would stay in force if the other one were enforced, too."""
    builder = QueueSetBuilder("default", "fairburst-system", observing=True)
    builder.lanes.prepare(Spaces(), {}, lambda _: (), assigns=True)
    objects = made((LQ, "bursts", latency_spec(enforcement=first)), (TQ, "nightly", {"enforcement": second}))
    queue_set = builder.build(objects, Memory(), frozenset())
    reason, message = problem(queue_set, refused)
    assert reason == "SecondQueue"
    assert says in message
    assert len(queue_set.governing) == 1


def test_more_queues_than_lanes_leave_the_youngest_out() -> None:
    queue_set = build(made(BURSTS, *((TQ, f"batch-{n}", None) for n in range(9))))
    assert len(queue_set.governing) == 9
    reason, message = problem(queue_set, "batch-8")
    assert reason == "TooManyQueues"
    assert "expected at most 8 queues besides LatencyQueue bursts" in message


def test_a_restarted_operator_keeps_default_queue_and_lanes_by_the_labels_of_the_namespace() -> None:
    older = made((TQ, "nightly", None), BURSTS)
    queue_set = build(older, {"fairburst.dev/queue-4": "nightly"})
    [default] = [one.key[2] for one in queue_set.governing if one.lane is None]
    assert default == "bursts", "the older queue was invalid once, and so it has a lane"
    assert queue_set.spaces.lanes == {"team": {"nightly": 4}}


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param({}, {"nightly": 2, "weekly": 1}, id="all labels lost"),
        pytest.param({"fairburst.dev/queue-1": "weekly"}, {"nightly": 2, "weekly": 1}, id="one label lost"),
        pytest.param({"fairburst.dev/queue-2": "weekly"}, {"nightly": 2, "weekly": 1}, id="one label lost, one moved"),
        pytest.param({"fairburst.dev/queue-1": "nightly", "fairburst.dev/queue-2": "weekly"}, {"nightly": 2, "weekly": 1}, id="swapped"),
        pytest.param({"fairburst.dev/queue-1": "nightly"}, {"nightly": 2, "weekly": 1}, id="one label names the other queue"),
        pytest.param({"fairburst.dev/queue-5": "nightly"}, {"nightly": 2, "weekly": 1}, id="another lane"),
        pytest.param({"fairburst.dev/queue-1": "bursts"}, {"nightly": 2, "weekly": 1}, id="a label names the default queue"),
    ],
)
def test_a_restarted_operator_keeps_lanes_by_the_statuses_where_labels_were_edited_by_hand(
    labels: dict[str, str], want: dict[str, int]
) -> None:
    """Otherwise running pods would count for another queue: the default one, whose burst would be refused, or each other."""
    queues = made(BURSTS, (TQ, "nightly", None), (TQ, "weekly", None))
    for key, name in (((LQ, "bursts"), "hard"), ((TQ, "nightly"), "queue-2"), ((TQ, "weekly"), "queue-1")):
        queues[key[0], "team", key[1]]["status"] = {"podPriority": {"className": f"fairburst-{name}"}}
    assert build(queues, labels).spaces.lanes == {"team": want}


def test_a_lane_on_which_label_and_status_agree_is_kept_from_a_status_that_was_not_written_again_yet() -> None:
    queues = made(BURSTS, (TQ, "nightly", None), (TQ, "weekly", None))
    for name in ("nightly", "weekly"):
        queues[TQ, "team", name]["status"] = {"podPriority": {"className": "fairburst-queue-1"}}
    labels = {"fairburst.dev/queue-1": "weekly", "fairburst.dev/queue-2": "nightly"}
    assert build(queues, labels).spaces.lanes == {"team": {"nightly": 2, "weekly": 1}}


def test_a_running_operator_keeps_the_lanes_that_it_gave_whatever_statuses_say() -> None:
    queues = made(BURSTS, (TQ, "nightly", None), (TQ, "weekly", None))
    builder = QueueSetBuilder("default", "fairburst-system")
    for _ in range(2):
        builder.lanes.prepare(Spaces(), {"team": {"fairburst.dev/queue-3": "nightly"}}, lambda _: (), assigns=True)
        assert builder.build(queues, Memory(), frozenset()).spaces.lanes == {"team": {"nightly": 3, "weekly": 1}}
        queues[TQ, "team", "weekly"]["status"] = {"podPriority": {"className": "fairburst-queue-3"}}


@pytest.mark.parametrize("status", [None, [], {"podPriority": "x"}, {"podPriority": {"className": ["fairburst-queue-2"]}}])
def test_a_damaged_status_tells_no_lane(status: Any) -> None:
    queues = made(BURSTS, (TQ, "nightly", None))
    queues[TQ, "team", "nightly"]["status"] = status
    assert build(queues).spaces.lanes == {"team": {"nightly": 1}}


def test_a_further_queue_becomes_the_default_queue_when_that_is_deleted() -> None:
    queue_set = build(made((TQ, "nightly", None)), {"fairburst.dev/queue-1": "nightly"})
    assert [(entry.space, entry.lane) for entry in queue_set.governing] == [("team", None)]
    assert not queue_set.spaces.lanes


def test_a_queue_set_that_only_observes_gives_no_lanes() -> None:
    builder = QueueSetBuilder("default", "fairburst-system", observing=True)
    builder.lanes.prepare(Spaces({"team": {"nightly": 5}}), {}, lambda _: (), assigns=False)
    queue_set = builder.build(made(BURSTS, (TQ, "nightly", None), (TQ, "weekly", None)), Memory(), frozenset())
    assert {entry.space for entry in queue_set.governing} == {"team", "team/nightly"}
