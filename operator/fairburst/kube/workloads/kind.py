"""A kind of controller as fairburst knows it: the path of its objects, and how many pods they want. One value for each kind, no state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fairburst.kube.api.objects import Metadata, Object, PodTemplate


class CountedPods(Protocol):
    """Pods of one controller: those that have not ended, those of them being deleted, and those that ended while their Job was being
    tracked, all of them and those of the last seconds."""

    @property
    def active(self) -> int: ...

    @property
    def terminating(self) -> int: ...

    @property
    def ended(self) -> int: ...

    @property
    def lately(self) -> int: ...


class SuspendSpec(Protocol):
    """A spec with a switch that holds its work."""

    @property
    def suspend(self) -> bool | None: ...


class Suspendable(Protocol):
    """An object that fairburst can hold whole and start: a Job, a JobSet."""

    @property
    def metadata(self) -> Metadata: ...

    @property
    def spec(self) -> SuspendSpec: ...

    @property
    def finished(self) -> bool: ...

    @property
    def first_template(self) -> PodTemplate: ...


@dataclass(frozen=True, slots=True)
class Controllers:
    """The controllers of one namespace, by kind."""

    by_kind: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def of(self, kind: str) -> Collection[Any]:
        """Return the objects of a kind; empty where there are none."""
        return self.by_kind.get(kind, {}).values()


@dataclass(frozen=True, slots=True)
class PodsToCome:
    """A number of pods of a template that no other object announces yet."""

    template: PodTemplate
    pods: int


def all_of_kind(kind: str) -> Callable[[Controllers], Iterable[Any]]:
    """Return the function that lists every controller of a kind."""
    return lambda controllers: controllers.of(kind)


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """One kind of controller.

    name: its Kubernetes kind, the name of `item`. group, version, plural: where its objects are. item: the parts of one that are read.
    optional: whether its CRD may be missing. patched: whether the operator writes to its objects: an annotation makes a controller retry
    pods that a quota refused, and a patch starts a held one. suspends: whether Suspend mode holds it, by spec.suspend.
    creates_pods: whether pods name it as their controller. wanting: the objects that want pods of their own (for a Deployment those
    without a ReplicaSet). wanted: how many pods such an object wants at once. to_come: pods that an object will create through other
    objects and that these do not announce yet; `held` says whether it is suspended until we start it. reached: whether its controller has
    processed an object yet, for a kind whose objects show that. due: whether it has still to look at an object, because pods of it have
    ended, for a kind whose objects show that. new: how many of an object's missing pods have never existed, for a kind of
    which others replace pods that have ended.
    """

    name: str
    group: str
    version: str
    plural: str
    item: type[Object]
    optional: bool = False
    patched: bool = True
    suspends: bool = False
    creates_pods: bool = False
    wanting: Callable[[Controllers], Iterable[Any]] | None = None
    wanted: Callable[[Any, CountedPods], int] | None = None
    to_come: Callable[[Any, Controllers, bool], Iterable[PodsToCome]] | None = None
    reached: Callable[[Any], bool] = lambda _: True
    due: Callable[[Any, CountedPods], bool] = lambda *_: False
    new: Callable[[Any, CountedPods], int] | None = None

    @property
    def api_version(self) -> str:
        """Return the apiVersion of its objects."""
        return f"{self.group}/{self.version}"

    @property
    def collection(self) -> str:
        """Return the path of the objects of all namespaces."""
        return f"/apis/{self.group}/{self.version}/{self.plural}"

    def path(self, namespace: str, name: str) -> str:
        """Return the path of one object."""
        return f"/apis/{self.group}/{self.version}/namespaces/{namespace}/{self.plural}/{name}"
