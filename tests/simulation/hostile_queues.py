"""Queues that their CRDs admit and that no user creates."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.simulation.hostile_values import CURVES, NAMES, TIMES, YEAR, Draws
from tests.simulation.resources import LATENCY_QUEUES, Object

CRONS = ("* * * * *", "0 0 29 2 *", "*/7 */5 * * *", "59 23 31 12 *", "0 2 * * 0#5", "30 2 * * *", "0 0 L * *", "0,59 0,23 1,31 1-12 0-7")
ZONES = ("Etc/UTC", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu", "Etc/GMT-14", "Africa/Monrovia")
DATES = ("2026-05-28", "2026-12-25", "0001-01-01", "9999-12-31", "2024-02-29")
_FIRST = 1_780_000_000  # of a schedule's many bursts, in seconds since the epoch


class HostileQueues(Draws):
    """Draws the specs of queues. Some of them break a rule of their CRD: the caller draws again."""

    def spec(self, collection: str) -> Object:
        """Return a spec for a collection of queues."""
        spec = self._latency() if collection == LATENCY_QUEUES else self._throughput()
        return spec | {
            "weight": self.source.choice((1, 1, 2, 1_000_000)),
            "enforcement": self.source.choice(("Quota", "Gate", "Suspend", "Observe")),
            "reclaim": self.source.choice(("Never", "Evict")),
            "suspended": self.source.random() < 0.1,
        }

    def _resources(self) -> dict[str, str]:
        names = self.source.sample(NAMES[:5], self.source.choice((1, 2, 2, 3)))
        return {name: self.amount() for name in names}

    def _burst(self) -> Object:
        duration = self.seconds()
        deadline = self.maybe(0.6, lambda: min(YEAR, duration + self.source.choice((0, 1, 10, YEAR))))
        return {"resources": self._resources(), "durationSeconds": duration} | ({"deadlineSeconds": deadline} if deadline else {})

    def _latency(self) -> Object:
        form = self.source.choice(("periodic", "sporadic", "schedule", "calendar"))
        if form == "schedule":
            return {"arrival": {"schedule": {"bursts": self._scheduled()}}}
        spec: Object = {"burst": self._burst()} | self._settings()
        if form == "sporadic":
            return spec | {"arrival": {"sporadic": {"minInterarrivalSeconds": self.seconds()}}}
        if form == "calendar":
            return spec | {"arrival": {"calendar": self._calendar()}}
        periodic: Object = {"periodSeconds": self.seconds(), "jitterSeconds": self.source.choice((0, 0, 1, 30, YEAR))}
        if self.source.random() < 0.7:
            periodic["firstArrival"] = self.time()
        return spec | {"arrival": {"periodic": periodic}}

    def _scheduled(self) -> list[Object]:
        """Return a few bursts at odd times, or as many as the schema allows, a second each."""
        if self.source.random() < 0.05:
            one = {"resources": self._resources(), "durationSeconds": 1}
            times = (datetime.fromtimestamp(_FIRST + second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for second in range(500))
            return [{"arrival": time, **one} for time in times]
        return [{"arrival": time, **self._burst()} for time in sorted(self.source.sample(TIMES, self.source.randint(1, 3)))]

    def _calendar(self) -> Object:
        exceptions = self.source.sample(DATES, self.source.randint(0, 3))
        return {
            "cron": [self.source.choice(CRONS) for _ in range(self.source.choice((1, 1, 2, 16)))],
            "timeZone": self.source.choice(ZONES),
            "exceptions": exceptions,
        }

    def _settings(self) -> Object:
        found: Object = {}
        if self.source.random() < 0.5:
            found["leadTime"] = self.source.choice(("Auto", "Off"))
        if self.source.random() < 0.3:
            found["uncertainty"] = self._uncertainty()
        return found

    def _uncertainty(self) -> Object:
        made: Object = {
            "confidencePercent": self.source.choice((1, 50, 99)),
            "correlation": self.source.choice(("Independent", "Perfect", "Measured")),
        }
        if self.source.random() < 0.5:
            made["fromHistory"] = True
        if self.source.random() < 0.7:
            made["standardDeviationPercent"] = {name: self.source.choice((0, 1, 100, 1000)) for name in self.source.sample(NAMES[:5], 2)}
        return made

    def _throughput(self) -> Object:
        spec: Object = {}
        if self.source.random() < 0.4:
            spec["limits"] = self._resources()
        if self.source.random() < 0.3:
            spec["smallJobs"] = {"thresholdPercent": self.source.choice((1, 50, 100))}
        if self.source.random() < 0.3:
            spec["reserve"] = self.source.choice(("Auto", "Off"))
        if self.source.random() < 0.4:
            spec["elasticity"] = self._elasticity()
        return spec

    def _elasticity(self) -> Object:
        made: Object = {
            "curve": self.source.choice([text for text in CURVES if text]),
            "mode": self.source.choice(("Parallelism", "Parallelism", "Quota")),
            "acrossQueues": self.source.random() < 0.5,
            "fairnessPercent": self.source.choice((1, 50, 100)),
        }
        return made | ({"minimumParallelism": 1, "maximumParallelism": 100_000} if self.source.random() < 0.5 else {})
