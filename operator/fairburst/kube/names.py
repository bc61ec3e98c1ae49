"""Names shared by fairburst's objects: API group, labels, priority classes, quotas. Users' objects carry some of them."""

from __future__ import annotations

GROUP = "fairburst.dev"
VERSION = "v1alpha1"  # the operator reads and writes this version, and the API server stores it (docs/decisions/0251)
USERS_VERSION = "v1beta1"  # the version of manifests that users keep; the same schema
SERVED_VERSIONS = (USERS_VERSION, VERSION)
PLURALS = {"LatencyQueue": "latencyqueues", "ThroughputQueue": "throughputqueues"}  # of the queue kinds, as in paths
API_VERSION = f"{GROUP}/{VERSION}"
USERS_API_VERSION = f"{GROUP}/{USERS_VERSION}"
MANAGED_LABEL = f"{GROUP}/managed"
POOL_LABEL = f"{GROUP}/pool"
PRIORITY_LABEL = f"{GROUP}/pod-priority"  # on a namespace: the priority of its new pods
HOLDS_LABEL = f"{GROUP}/holds"  # on a namespace: the kind of its new objects that wait for a release

# Further queues of a namespace, besides its default one. Each has a lane: a number with a priority class, a quota and a label of its own.
QUEUE_LABEL = f"{GROUP}/queue"  # on a pod: the queue that it asks for
LANES = tuple(range(1, 9))
LANE_LABELS = {lane: f"{GROUP}/queue-{lane}" for lane in LANES}  # on a namespace: the queue that has the lane
LANES_HOLD_LABEL = f"{GROUP}/queues-hold"  # on a namespace: the lanes whose new objects wait for a release, with the kind of these
NAMESPACE_LABELS = (MANAGED_LABEL, POOL_LABEL, PRIORITY_LABEL, HOLDS_LABEL, LANES_HOLD_LABEL, *LANE_LABELS.values())
NAMESPACE_LABELS_TEXT = f"{', '.join(NAMESPACE_LABELS[:5])}, {LANE_LABELS[1]} to {LANE_LABELS[LANES[-1]]}"

STEP_LABEL = f"{GROUP}/priority"  # on a pod or Job: its step of priority within its queue

# Holds on new work: a gate on pods, and a note on Jobs that fairburst suspends.
GATE = f"{GROUP}/queue"
HELD_ANNOTATION = f"{GROUP}/held"
RELEASED_ANNOTATION = f"{GROUP}/released-at"
RECLAIMABLE_ANNOTATION = f"{GROUP}/reclaimable"  # "true" on a pod that belongs to no Job: its work may be evicted

# On a quota with a temporary part: when it expires, and the amounts that stay.
EXPIRES_ANNOTATION = f"{GROUP}/expires"
LASTING_ANNOTATION = f"{GROUP}/lasting"
SMALL_UP_TO_ANNOTATION = f"{GROUP}/small-up-to"  # on the namespace quota: what a small Job may request, like "cpu=2,memory=4Gi"

PRIORITY_CLASS_PREFIX = "fairburst-"
LOWEST_CLASS = f"{PRIORITY_CLASS_PREFIX}large"
# Classes of the pods of elastic queues, by the size of their Job.
SMALL_CLASS, LARGE_CLASS = f"{PRIORITY_CLASS_PREFIX}small", LOWEST_CLASS
SIZE_CLASSES = (SMALL_CLASS, LARGE_CLASS)
LANE_CLASSES = {lane: f"{PRIORITY_CLASS_PREFIX}queue-{lane}" for lane in LANES}
LANE_OF_CLASS = {name: lane for lane, name in LANE_CLASSES.items()}

QUOTA_NAME = "fairburst"
SMALL_QUOTA = f"{QUOTA_NAME}-small"
FORMER_QUOTA = f"{QUOTA_NAME}-large"  # of earlier versions; removed where it is found
LANE_QUOTAS = {lane: f"{QUOTA_NAME}-queue-{lane}" for lane in LANES}
OTHER_QUOTAS = (SMALL_QUOTA, FORMER_QUOTA, *LANE_QUOTAS.values())
OUR_QUOTAS = frozenset({QUOTA_NAME, *OTHER_QUOTAS})
OUR_QUOTAS_TEXT = f"{QUOTA_NAME}, {FORMER_QUOTA}, {SMALL_QUOTA}, {LANE_QUOTAS[1]} to {LANE_QUOTAS[LANES[-1]]}"


def class_name(rung: str) -> str:
    """Return the name of a PriorityClass: large, small, soft or hard."""
    return PRIORITY_CLASS_PREFIX + rung
