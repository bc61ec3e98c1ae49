"""Objects of ours that an administrator or a broken client damages, by seed. What is stored stays valid for the API server's schemas."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime
from typing import Any

from fairburst.kube.names import GROUP, LANE_LABELS, MANAGED_LABEL, OUR_QUOTAS, POOL_LABEL
from tests.simulation.api_server import ApiServer
from tests.simulation.fault import Fault
from tests.simulation.resources import CONFIG_MAPS, NAMESPACES, QUEUES, QUOTAS, Object
from tests.simulation.scenario import Scenario

WHO = "administrator"
FOREIGN_KEY = "persistentvolumeclaims"  # no quota of ours limits it
_KEPT = frozenset({"promise", "refused", "class"})  # scrambled they would be another promise, which others might have to give way to
_TIMES = ("1970-01-01T00:00:01Z", "2026-05-28T20:27:00Z", "9999-12-31T23:59:59Z")
_UNREADABLE = '{"version": 1, "asOf": 1e999, "committed": {"cpu": "x"}}'
# What is removed of a namespace's labels, and which of ours these are. An administrator who cleans up by hand seldom takes all.
_LABELS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("labels", lambda label: True),
    ("the label of management", MANAGED_LABEL.__eq__),
    ("the label of the pool", POOL_LABEL.__eq__),
    ("the labels of lanes", lambda label: label in LANE_LABELS.values()),
    ("the label of lane 1", LANE_LABELS[1].__eq__),
)
_TEXTS = ("", "{", "[]", "null", '{"version": 1}', '{"version": 99}', "[" * 100_000, _UNREADABLE)


class Damage:
    """Draws faults from one source."""

    def __init__(self, server: ApiServer, scenario: Scenario, source: random.Random) -> None:
        self._server, self._scenario, self._source = server, scenario, source

    def draw(self, at: float) -> Fault:
        """Return a fault of any kind. Those that end at once are felt while the leader may be away."""
        return self._source.choice((self._status, self._status, self._quotas, self._labels, self._memory))(at)

    def _fault(self, name: str, at: float, begin: Callable[[], None]) -> Fault:
        return Fault(name, at, self._source.uniform(0.01, 10), begin)

    # Statuses --------------------------------------------------------------------------------------------------------

    def _status(self, at: float) -> Fault:
        tenant = self._source.choice(self._scenario.tenants)
        how, damaged = self._source.choice(
            (("removed", self._removed), ("partly removed", self._partly), ("replaced", self._replaced), ("scrambled", self._scrambled))
        )

        def begin() -> None:
            queue = self._server.get(tenant.collection, tenant.namespace, tenant.queue)
            if queue is not None and queue.get("status"):
                former = queue["status"]
                self._server.update(tenant.collection, queue, {"status": {**dict.fromkeys(former), **damaged(former)}}, WHO)

        return self._fault(f"status of {tenant.namespace}/{tenant.queue} {how}", at, begin)

    def _removed(self, _: Object) -> Object:
        return {}

    def _partly(self, former: Object) -> Object:
        return {name: value for name, value in former.items() if self._source.random() < 0.5}

    def _replaced(self, _: Object) -> Object:
        return {"explanation": "x" * 1024, "share": "", "conditions": []}

    def _scrambled(self, former: Object) -> Object:
        return {name: value if name in _KEPT else self._other(value) for name, value in former.items()}

    def _other(self, value: Any) -> Any:
        """Return another value of the same type."""
        match value:
            case dict():
                return {name: self._other(part) for name, part in value.items()}
            case list():
                return [self._other(part) for part in value]
            case bool():
                return not value
            case int():
                return self._source.choice((0, 1, value, 10**6, 2**31 - 1))
            case str() if _is_time(value):
                return self._source.choice(_TIMES)
        return value

    # Other objects ---------------------------------------------------------------------------------------------------

    def _quotas(self, at: float) -> Fault:
        how, damage = self._source.choice(
            (("deleted", self._delete), ("without labels", self._unlabel), ("with another hard", self._edit_hard), ("emptied", self._empty))
        )

        def begin() -> None:
            for quota in self._server.of(QUOTAS):
                if quota["metadata"]["name"] in OUR_QUOTAS and self._source.random() < 0.6:
                    damage(QUOTAS, quota)

        return self._fault(f"quotas {how}", at, begin)

    def _labels(self, at: float) -> Fault:
        what, goes = self._source.choice(_LABELS)

        def begin() -> None:
            for namespace in self._server.of(NAMESPACES):
                if self._source.random() < 0.7:
                    self._unlabel(NAMESPACES, namespace, goes)

        return self._fault(f"{what} of namespaces removed", at, begin)

    def _memory(self, at: float) -> Fault:
        text = self._source.choice((None, None, *_TEXTS))

        def begin() -> None:
            for config_map in self._server.of(CONFIG_MAPS):
                if text is None:
                    self._delete(CONFIG_MAPS, config_map)
                else:
                    self._server.update(CONFIG_MAPS, config_map, {"data": dict.fromkeys(config_map["data"], text)}, WHO)

        return self._fault("memory deleted" if text is None else f"memory corrupt ({text[:20]})", at, begin)

    def _delete(self, collection: str, obj: Object) -> None:
        self._server.remove(collection, obj, WHO)

    def _unlabel(self, collection: str, obj: Object, goes: Callable[[str], bool] = lambda label: True) -> None:
        ours = [label for label in obj["metadata"].get("labels") or {} if GROUP in label and goes(label)]
        self._server.update(collection, obj, {"metadata": {"labels": dict.fromkeys(ours)}}, WHO)

    def _edit_hard(self, collection: str, obj: Object) -> None:
        hard = {name: self._source.choice(("0", "1", "1000")) for name in obj["spec"].get("hard") or {}}
        self._server.update(collection, obj, {"spec": {"hard": {**hard, FOREIGN_KEY: "7"}}}, WHO)

    def _empty(self, collection: str, obj: Object) -> None:
        self._server.update(collection, obj, {"spec": {"hard": dict.fromkeys(obj["spec"].get("hard") or {})}}, WHO)


def is_damage(who: str, collection: str) -> bool:
    """Return whether a write damaged the status of a queue."""
    return who == WHO and collection in QUEUES


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
