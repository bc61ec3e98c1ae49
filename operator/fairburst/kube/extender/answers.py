"""Answers to kube-scheduler's filter and prioritize requests from the node table: JSON in, JSON out, no I/O.

The answer depends on the node table only for pods in a governed namespace that have one of fairburst's priority classes. For all other pods
every node passes and every score is 0, which changes nothing.
"""

from __future__ import annotations

from enum import Enum
from itertools import filterfalse, repeat

import msgspec
import numpy as np

from fairburst.kube.api.objects import Metadata
from fairburst.kube.extender.node_table import NodeTable
from fairburst.kube.names import LANE_OF_CLASS, LARGE_CLASS, PRIORITY_CLASS_PREFIX, SIZE_CLASSES
from fairburst.policy.arrays import IntArray
from fairburst.policy.placement import packing_scores, spreading_scores


class NotUnderstoodError(Exception):
    """The body is not a request that kube-scheduler sends as configured; the message says what was expected."""


class Answer(Enum):
    """Effect of an answer."""

    OURS = "ours"  # it excludes or scores nodes
    NEUTRAL = "neutral"  # it changes nothing


class _Spec(msgspec.Struct, rename="camel"):
    priority_class_name: str = ""


class _Pod(msgspec.Struct):
    """The fields of a pod that an answer depends on."""

    metadata: Metadata
    spec: _Spec


class _Question(msgspec.Struct, rename="pascal"):
    """ExtenderArgs of k8s.io/kube-scheduler/extender/v1. Node names stay encoded until they are needed."""

    pod: _Pod
    node_names: msgspec.Raw = msgspec.Raw()


KEPT = "kept free for a burst"  # kube-scheduler repeats it in an event of the pod, so it names no other tenant's queue

_questions = msgspec.json.Decoder(_Question)
_names = msgspec.json.Decoder(list[str])


def filtered(body: bytes, table: NodeTable) -> tuple[bytes, Answer]:
    """Return the nodes that the pod may use; large batch pods may not use a node kept for a burst. Raises NotUnderstoodError."""
    question = _read(body)
    if not table.kept_by or _class_of(question, table) != LARGE_CLASS:
        return b'{"NodeNames":%b}' % bytes(question.node_names), Answer.NEUTRAL
    asked = _decoded(question.node_names)
    kept = table.kept_by.keys() & asked
    failed = dict.fromkeys(kept, KEPT)
    left = list(filterfalse(kept.__contains__, asked))
    return msgspec.json.encode({"NodeNames": left, "FailedNodes": failed}), Answer.OURS if failed else Answer.NEUTRAL


def prioritized(body: bytes, table: NodeTable) -> tuple[bytes, Answer]:
    """Return the scores above 0 of the nodes in the request: batch work is packed, bursts are spread. Raises NotUnderstoodError.

    kube-scheduler gives score 0 to a node that the answer does not name. The answer names no node for a pod outside fairburst's namespaces
    and priority classes, and leaves out nodes that the table does not have.
    """
    question = _read(body)
    priority_class = _class_of(question, table)
    if priority_class is None:
        return b"[]", Answer.NEUTRAL
    asked = _decoded(question.node_names)
    rows: IntArray = np.fromiter(map(table.row_of.get, asked, repeat(-1)), dtype=np.int64, count=len(asked))
    rows = np.sort(rows[rows >= 0])  # in order of names: kube-scheduler starts each request at another node
    if priority_class in SIZE_CLASSES:
        scores = packing_scores(table.used[rows], table.kept[rows])
    else:
        scores = spreading_scores(table.share(question.pod.metadata.namespace)[rows])
    scored = scores > 0
    return b"[%b]" % b",".join(table.scored_hosts[scores[scored], rows[scored]].tolist()), Answer.OURS


def _read(body: bytes) -> _Question:
    try:
        question = _questions.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NotUnderstoodError(f"expected ExtenderArgs as JSON: {error}") from error
    if bytes(question.node_names) in {b"", b"null"}:
        raise NotUnderstoodError("expected NodeNames, found none: the extender needs nodeCacheCapable: true")
    return question


def _decoded(names: msgspec.Raw) -> list[str]:
    try:
        return _names.decode(names)
    except msgspec.MsgspecError as error:
        raise NotUnderstoodError(f"expected NodeNames as a list of names: {error}") from error


def _class_of(question: _Question, table: NodeTable) -> str | None:
    """Return the pod's priority class if it is one of fairburst's and a queue governs the namespace, otherwise None.

    Pods of further queues are batch work.
    """
    priority_class = question.pod.spec.priority_class_name
    if priority_class in LANE_OF_CLASS:
        priority_class = LARGE_CLASS
    ours = priority_class.startswith(PRIORITY_CLASS_PREFIX) and table.class_of(question.pod.metadata.namespace) is not None
    return priority_class if ours else None
