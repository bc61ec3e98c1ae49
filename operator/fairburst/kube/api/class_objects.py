"""The cluster's classes that pods name: of devices, of runtimes and of priorities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fairburst.kube.api.objects import Object, ResourceList, Struct


class DeviceClassSpec(Struct):
    """resource.k8s.io/v1 DeviceClassSpec."""

    extended_resource_name: str = ""


class DeviceClass(Object):
    """resource.k8s.io/v1 DeviceClass. A pod may ask for its devices as for an extended resource, which no node lists then."""

    spec: DeviceClassSpec = msgspec.field(default_factory=DeviceClassSpec)


class Overhead(Struct):
    """node.k8s.io/v1 Overhead."""

    pod_fixed: ResourceList | None = None


class RuntimeClass(Object):
    """node.k8s.io/v1 RuntimeClass. The API server adds its overhead to pods, and not to their templates."""

    overhead: Overhead | None = None


class PriorityClass(Object):
    """scheduling.k8s.io/v1 PriorityClass. The API server refuses pods that name a missing one, or another value than it has."""

    value: int = 0


COLLECTIONS: Mapping[type[Any], str] = {
    DeviceClass: "/apis/resource.k8s.io/v1/deviceclasses",  # Kubernetes before 1.34 has none with the name of an extended resource
    RuntimeClass: "/apis/node.k8s.io/v1/runtimeclasses",
    PriorityClass: "/apis/scheduling.k8s.io/v1/priorityclasses",
}
