"""Controllers by namespace, kept current by the informers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from typing import Any

from fairburst.kube.api.objects import Job, PodTemplate
from fairburst.kube.names import HELD_ANNOTATION
from fairburst.kube.queues.job_annotations import read_mark
from fairburst.kube.queues.lanes import asks_for
from fairburst.kube.queues.spaces import UNDIVIDED, namespace_of
from fairburst.kube.workloads.job import is_reached
from fairburst.kube.workloads.kind import Controllers, Suspendable
from fairburst.kube.workloads.registry import KINDS


class ControllerIndex:
    """The controllers of every kind, by namespace. O(1) a change.

    spaces: the divided namespaces. starts_are_noted: whether any Job has shown that its controller notes when it first processes one.
    """

    def __init__(self) -> None:
        self.spaces = UNDIVIDED
        self.starts_are_noted = False
        self._by_namespace: dict[str, dict[str, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))
        self._marked: dict[tuple[str, str], Job] = {}
        self._noted: dict[tuple[str, str, str], Suspendable] = {}

    def update(self, kind: str, old: Any, new: Any) -> None:
        """Apply one change of a controller; `kind` is its Kubernetes kind."""
        metadata = (new or old).metadata
        of_kind = self._by_namespace[metadata.namespace][kind]
        if new is None:
            of_kind.pop(metadata.name, None)
        else:
            of_kind[metadata.name] = new
        if kind == "Job":
            key = metadata.namespace, metadata.name
            self.starts_are_noted |= new is not None and is_reached(new)
            if new is not None and read_mark(new.metadata.annotations) is not None:
                self._marked[key] = new
            else:
                self._marked.pop(key, None)
        if KINDS[kind].suspends:
            noted = kind, metadata.namespace, metadata.name
            if new is not None and HELD_ANNOTATION in (new.metadata.annotations or {}):
                self._noted[noted] = new
            else:
                self._noted.pop(noted, None)

    def marked_jobs(self) -> Collection[Job]:
        """Return the Jobs that carry our notes of having been resized, in all namespaces."""
        return self._marked.values()

    def noted_jobs(self) -> Collection[Suspendable]:
        """Return the objects that carry our note of being held, in all namespaces."""
        return self._noted.values()

    def job(self, namespace: str, name: str) -> Job | None:
        """Return the Job of this name, or None."""
        kinds = self._by_namespace.get(namespace)
        job: Job | None = None if kinds is None else kinds["Job"].get(name)
        return job

    def all_jobs(self) -> Iterator[Job]:
        """Return the Jobs of all namespaces."""
        return (job for kinds in self._by_namespace.values() for job in kinds["Job"].values())

    def all_controllers(self) -> Iterator[Any]:
        """Return the controllers of every kind in all namespaces."""
        return (one for kinds in self._by_namespace.values() for of_kind in kinds.values() for one in of_kind.values())

    def space_of(self, work: Suspendable) -> str:
        """Return the space of a Job's or JobSet's new pods. A JobSet starts whole, so that of its first part counts for all of it."""
        namespace = work.metadata.namespace
        if namespace not in self.spaces.lanes:  # asked of every held Job in each round
            return namespace
        return self.spaces.of_queue(namespace, asks_for(work.first_template.metadata.labels))

    def workloads(self, space: str) -> Controllers:
        """Return the controllers of the space's namespace; empty where there are none. `belongs_to` finds those of the space."""
        return Controllers(self._by_namespace.get(namespace_of(space), {}))

    def belongs_to(self, space: str) -> Callable[[PodTemplate], bool]:
        """Return a function of a pod template: whether its new pods belong to the space."""
        namespace, spaces = namespace_of(space), self.spaces
        if namespace not in spaces.lanes:
            return lambda _: True
        return lambda template: spaces.of_queue(namespace, asks_for(template.metadata.labels)) == space
