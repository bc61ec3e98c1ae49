"""Obstacles to a promise, in words that say what to do."""

from __future__ import annotations

from typing import Any

import pytest

from fairburst.kube.api.quota_objects import LimitRange, ResourceQuota
from fairburst.kube.enforce.enforceability import obstacles
from tests.support.objects import GI, limit_range, quota


def found(**given: Any) -> list[tuple[str, bool, str]]:
    """(reason, blocks, message) of each obstacle for a promise of 10 cpu, 20 Gi with pods of 2 cpu, 4 Gi."""
    about = {"unrequested": [], "foreign_quotas": [], "limit_ranges": [], "promise": {"cpu": 10.0, "memory": 20 * GI}, "has_quota": False}
    about |= {"unit": {"cpu": 2.0, "memory": 4 * GI}}
    return [(one.reason, one.blocks, one.message) for one in obstacles(**(about | given))]  # type: ignore[arg-type]


def test_nothing_is_in_the_way_of_an_empty_namespace() -> None:
    assert found() == []


def test_pods_without_requests_block_the_quota_and_are_named() -> None:
    ((reason, blocks, message),) = found(unrequested=["web-1", "Job nightly"])
    assert (reason, blocks) == ("PodsWithoutRequests", True)
    assert "found none on Job nightly, web-1;" in message
    assert "LimitRange with defaultRequest" in message


@pytest.mark.parametrize(
    ("has_quota", "gated", "want"),
    [
        (False, False, "a quota would refuse their successors, so none is written."),
        (True, False, "the namespace's quota refuses their successors."),
        (True, True, "a policy refuses their successors, or these wait behind the gate."),
    ],
)
def test_what_happens_to_their_successors_is_said_as_it_is(want: str, *, has_quota: bool, gated: bool) -> None:
    ((_, _, message),) = found(unrequested=["web-1"], has_quota=has_quota, gated=gated)
    assert f"found none on web-1; {want} Add requests" in message


def test_many_pods_without_requests_are_counted() -> None:
    ((_, _, message),) = found(unrequested=[f"web-{number}" for number in range(8)])
    assert "web-0, web-1, web-2, web-3, web-4 and 3 more;" in message


@pytest.mark.parametrize(
    ("item", "helps"),
    [
        pytest.param({"type": "Container", "defaultRequest": {"cpu": "1", "memory": "1Gi"}}, True, id="requests for both"),
        pytest.param({"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}}, True, id="limits, which are requests as well"),
        pytest.param({"type": "Container", "defaultRequest": {"cpu": "1"}}, False, id="cpu alone"),
        pytest.param({"type": "Pod", "max": {"cpu": "9", "memory": "9Gi"}}, False, id="no defaults"),
    ],
)
def test_a_limit_range_with_defaults_unblocks(item: dict[str, Any], helps: bool) -> None:
    reasons = [reason for reason, _, _ in found(unrequested=["web-1"], limit_ranges=[limit_range("n", "l", **item)])]
    assert ("PodsWithoutRequests" not in reasons) is helps


@pytest.mark.parametrize(
    ("hard", "want"),
    [
        pytest.param({"requests.cpu": "4"}, "limits cpu to 4, the promise is 10", id="requests.cpu"),
        pytest.param({"cpu": "4"}, "limits cpu to 4, the promise is 10", id="cpu, which is the same"),
        pytest.param({"memory": "8Gi", "cpu": "100"}, "limits memory to 8Gi, the promise is 20Gi", id="memory"),
        pytest.param({"requests.cpu": "10", "requests.memory": "20Gi"}, None, id="exactly the promise"),
        pytest.param({"limits.cpu": "1", "pods": "5", "requests.storage": "1"}, None, id="other things"),
    ],
)
def test_a_foreign_quota_below_the_promise_is_named_with_both_numbers(hard: dict[str, str], want: str | None) -> None:
    theirs: ResourceQuota = quota("n", hard, name="theirs", scoped=False)
    result = found(foreign_quotas=[theirs])
    if want is None:
        assert result == []
    else:
        assert [(reason, blocks) for reason, blocks, _ in result] == [("ForeignQuotaBelowPromise", False)]
        assert f"ResourceQuota theirs {want}; raise or delete it." in result[0][2]


@pytest.mark.parametrize(
    ("limits", "want"),
    [
        pytest.param(limit_range("n", "l", type="Pod", max={"cpu": "1"}), "allows pods at most 1 cpu, the largest pod needs 2", id="cpu"),
        pytest.param(limit_range("n", "l", type="Pod", max={"memory": "2Gi"}), "2Gi memory, the largest pod needs 4Gi", id="memory"),
        pytest.param(limit_range("n", "l", type="Pod", max={"cpu": "2"}), None, id="just enough"),
        pytest.param(limit_range("n", "l", type="PersistentVolumeClaim", max={"storage": "1"}), None, id="storage"),
    ],
)
def test_a_limit_range_below_the_largest_pod_is_named_with_both_numbers(limits: LimitRange, want: str | None) -> None:
    result = found(limit_ranges=[limits])
    assert [reason for reason, _, _ in result] == ([] if want is None else ["LimitRangeBelowPod"])
    assert want is None or want in result[0][2]


def test_what_blocks_comes_first() -> None:
    theirs = quota("n", {"cpu": "1"}, name="theirs", scoped=False)
    assert [blocks for _, blocks, _ in found(foreign_quotas=[theirs], unrequested=["web-1"])] == [True, False]
