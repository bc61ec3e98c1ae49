"""Random pods, as JSON: sidecars, init containers, overhead, pod-level resources, and resizes that a kubelet has done in part."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

JsonObject = dict[str, Any]

AMOUNTS = st.sampled_from([0, 1, 2, "1500m", "300m", 7, "2", "10"])
WHOLE = st.fixed_dictionaries({"cpu": AMOUNTS, "memory": AMOUNTS})
DEVICES = "nvidia.com/gpu"


@st.composite
def _lists(draw: st.DrawFn, *more: str) -> JsonObject:
    return draw(st.dictionaries(st.sampled_from(["cpu", "memory", *more]), AMOUNTS))


@st.composite
def _container(draw: st.DrawFn, name: str) -> JsonObject:
    """A container or an init container. Either may have a restart policy, but only an init container becomes a sidecar by it."""
    container: JsonObject = {"name": name, "resources": {"requests": draw(_lists(DEVICES))}}
    policy = draw(st.sampled_from([None, "Always", "Never"]))
    return container | ({"restartPolicy": policy} if policy else {})


@st.composite
def templates(draw: st.DrawFn) -> JsonObject:
    """Pod specs with requests, without limits."""
    spec: JsonObject = {
        "containers": [draw(_container(f"c{number}")) for number in range(draw(st.integers(1, 3)))],
        "initContainers": [draw(_container(f"i{number}")) for number in range(draw(st.integers(0, 4)))],
    }
    if draw(st.booleans()):
        spec["resources"] = {"requests": draw(_lists())}
    if draw(st.booleans()):
        spec["overhead"] = draw(_lists())
    return spec


@st.composite
def _status(draw: st.DrawFn, container: JsonObject) -> JsonObject:
    """What the kubelet reports of a container: versions and feature gates differ in which fields they fill. Devices are never resized."""
    status: JsonObject = {"name": container["name"]}
    kept = {name: amount for name, amount in container["resources"]["requests"].items() if name == DEVICES}
    if draw(st.booleans()):
        status["allocatedResources"] = draw(_lists()) | kept
    if draw(st.booleans()):
        status["resources"] = draw(st.sampled_from([{}, {"requests": draw(_lists()) | kept}]))
    return status


@st.composite
def pods(draw: st.DrawFn) -> JsonObject:
    """Stored pods. Kubernetes refuses a resize of a pod without statuses of its containers, so that none of these is infeasible."""
    spec = draw(templates())
    status: JsonObject = {"phase": "Running"}
    if draw(st.booleans()):
        if spec.get("resources", {}).get("requests") and draw(st.booleans()):
            # The kubelet then reports all resources of the pod as a whole. Devices, which are never resized, are left out here.
            for one in (*spec["containers"], *spec["initContainers"]):
                one["resources"]["requests"].pop(DEVICES, None)
            spec.pop("overhead", None)
            status |= {"resources": {"requests": draw(WHOLE)}, "allocatedResources": draw(WHOLE)}
        status["containerStatuses"] = [draw(_status(one)) for one in spec["containers"]]
        if spec["initContainers"]:
            status["initContainerStatuses"] = [draw(_status(one)) for one in spec["initContainers"] if draw(st.booleans())]
        reason = draw(st.sampled_from(["", "Deferred", "Infeasible"]))
        if reason:
            status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    return {"spec": spec, "status": status}
