"""Pods as the driver reads them, from a list or a watch: only the fields that tell where a pod is in its life."""

from __future__ import annotations

import msgspec


class Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    resource_version: str = ""


class Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class Status(msgspec.Struct):
    phase: str = ""


class Pod(msgspec.Struct):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: Spec = msgspec.field(default_factory=Spec)
    status: Status = msgspec.field(default_factory=Status)


class PodList(msgspec.Struct):
    metadata: Metadata
    items: list[Pod]


class WatchEvent(msgspec.Struct):
    """`object` is a pod, also in a bookmark, which has only its resourceVersion; in an event of type ERROR it is a Status."""

    type: str
    object: msgspec.Raw


decode_pods = msgspec.json.Decoder(PodList).decode
decode_event = msgspec.json.Decoder(WatchEvent).decode
decode_pod = msgspec.json.Decoder(Pod).decode
