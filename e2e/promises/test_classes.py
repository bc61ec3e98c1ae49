"""Every queue immediately shows its promised class and the reason, with numbers: hard, soft, elastic or rejected."""

from __future__ import annotations

from collections.abc import Callable

from e2e.objects import JsonObject
from e2e.promises.site import PATIENCE_SECONDS, Site, condition
from e2e.waiting import until

ON_SECONDS = 27


def most_of(capacity: dict[str, float], period_seconds: int) -> JsonObject:
    """Return a burst of 92 % of the cluster for 27 s a period."""
    resources = {"cpu": f"{int(capacity['cpu'] * 920)}m", "memory": str(int(capacity["memory"] * 0.92))}
    return {
        "burst": {"resources": resources, "durationSeconds": ON_SECONDS},
        "arrival": {"periodic": {"periodSeconds": period_seconds}},
    }


def test_classes_come_with_their_reasons(fairburst: Site, namespaces: Callable[..., list[str]]) -> None:
    """BoPF section 5.2.5, identical demands and periods of 150, 110 and 60 s; then a queue that would break existing promises."""
    site, capacity = fairburst, fairburst.capacity()
    names = namespaces("batch", "hard", "soft", "elastic", "greedy")
    batch, hard, soft, elastic, greedy = names
    found = {batch: site.admitted("ThroughputQueue", batch, {})}
    for name, period in ((hard, 150), (soft, 110), (elastic, 60)):
        found[name] = site.admitted("LatencyQueue", name, most_of(capacity, period))
    found[greedy] = site.admitted("ThroughputQueue", greedy, {"weight": 40})

    assert [found[name]["class"] for name in names] == ["Elastic", "Hard", "Soft", "Elastic", "Rejected"]
    assert [found[name]["admission"]["resource"]["holds"] for name in (hard, soft)] == [True, False]
    assert found[elastic]["admission"]["fairness"]["holds"] is False
    safety = found[greedy]["admission"]["safety"]
    assert float(safety["left"]) > float(safety["right"])
    assert safety["queue"] == "another queue", "no tenant reads the names of others"
    assert "break a promise made earlier" in condition(found[greedy], "Admitted")["message"]
    shown = site.cluster.kubectl("get", "latq,thrq", "-A")
    assert all(one["class"] in shown for one in found.values())

    site.cluster.kubectl("delete", "latq", "--all", "-A")
    until(
        lambda: site.decided("ThroughputQueue", greedy)["class"] == "Elastic",
        PATIENCE_SECONDS,
        "the rejected queue to be admitted once those are gone that it would have hurt",
    )
