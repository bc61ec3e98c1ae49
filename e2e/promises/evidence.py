"""Evidence of a failed test: logs, events and objects before the cleanup."""

from __future__ import annotations

import re
from pathlib import Path

from e2e.cluster import Cluster, ClusterError
from e2e.promises.site import HOME

FOLDER = Path(__file__).resolve().parents[2] / "build" / "e2e"
QUESTIONS: dict[str, tuple[str, ...]] = {
    "nodes.txt": ("describe", "nodes"),
    "pods.txt": ("get", "pods", "-A", "-o", "wide"),
    "events.txt": ("get", "events", "-A", "--sort-by=.metadata.creationTimestamp"),
    "queues.yaml": ("get", "latq,thrq", "-A", "-o", "yaml"),
    "objects.yaml": ("get", "resourcequota,job,deployment,lease,configmap", "-A", "-o", "yaml"),
    "operators.txt": ("describe", "pods", "-n", HOME),
    "operators.log": ("logs", "-n", HOME, "-l", "app.kubernetes.io/name=fairburst", "--prefix", "--tail=-1"),
    "operators-previous.log": ("logs", "-n", HOME, "-l", "app.kubernetes.io/name=fairburst", "--prefix", "--tail=-1", "--previous"),
}


def collect(cluster: Cluster, test: str) -> Path:
    """Run all QUESTIONS and return the folder with the answers. A failed question records its error."""
    folder = FOLDER / re.sub(r"[^\w-]+", "-", test).strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    for name, question in QUESTIONS.items():
        try:
            answer = cluster.kubectl(*question, timeout=30)
        except ClusterError as error:
            answer = f"{error}\n"
        (folder / name).write_text(answer)
    return folder
