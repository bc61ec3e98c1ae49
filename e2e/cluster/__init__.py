"""A real Kubernetes control plane without containers, for tests and the demo. See README.md in this folder."""

from e2e.cluster.cluster import Cluster
from e2e.cluster.errors import ClusterError

__all__ = ["Cluster", "ClusterError"]
