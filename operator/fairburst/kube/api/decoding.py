"""Lists and watch events: the envelopes in which the API server sends objects."""

from __future__ import annotations

from typing import Generic

import msgspec

from fairburst.kube.api.objects import Metadata, T


class ListMetadata(msgspec.Struct):
    """metav1.ListMeta: the list's resourceVersion, and the token for its next page."""

    resource_version: str = msgspec.field(name="resourceVersion", default="")
    continue_token: str = msgspec.field(name="continue", default="")


class ObjectList(msgspec.Struct, Generic[T]):
    """One page of a list."""

    metadata: ListMetadata = msgspec.field(default_factory=ListMetadata)
    items: list[T] | None = None


class WatchEvent(msgspec.Struct, Generic[T]):
    """A watch event: ADDED, MODIFIED, DELETED, or a BOOKMARK, whose object has only a resourceVersion."""

    type: str
    object: T


class ErrorObject(msgspec.Struct):
    """metav1.Status, the object of an ERROR event."""

    code: int = 0
    reason: str = ""
    message: str = ""


def list_decoder(kind: type[T]) -> msgspec.json.Decoder[ObjectList[T]]:
    """Return a decoder for a list page of `kind`."""
    return msgspec.json.Decoder(ObjectList[kind])  # type: ignore[valid-type]


def event_decoder(kind: type[T]) -> msgspec.json.Decoder[WatchEvent[T]]:
    """Return a decoder for a watch line of `kind`, except ERROR events, whose object is a Status."""
    return msgspec.json.Decoder(WatchEvent[kind])  # type: ignore[valid-type]


class RawEvent(msgspec.Struct):
    """A watch event whose object is not decoded yet."""

    type: str
    object: msgspec.Raw


class Bookmark(msgspec.Struct):
    """The object of a bookmark: only its resource version counts."""

    metadata: Metadata


class RawList(msgspec.Struct):
    """A page of a list whose items are not decoded yet."""

    metadata: ListMetadata = msgspec.field(default_factory=ListMetadata)
    items: list[msgspec.Raw] | None = None


class ErrorEvent(msgspec.Struct):
    """A watch event of the type ERROR."""

    object: ErrorObject


RAW_EVENT_DECODER = msgspec.json.Decoder(RawEvent)
RAW_LIST_DECODER = msgspec.json.Decoder(RawList)
ERROR_DECODER = msgspec.json.Decoder(ErrorEvent)
