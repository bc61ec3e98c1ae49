"""Progress curves learned from completed runs of job families, and the ConfigMap in which the runs survive a restart.

The ConfigMap holds the runs, not the curves, so a better fit needs no migration. The operator does not overwrite a version that it does not
know, and then saves nothing until a restart. Data that the API server failed to return is asked for again, and not overwritten before.
Corrupt data is discarded. Each case is logged and shown in a metric. A job without a curve keeps its fair share.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping

from fairburst.curves.fit import Fit, Refusal, fit_runs
from fairburst.curves.observations import Observations, as_values, from_values, record
from fairburst.curves.runs import Run
from fairburst.kube.api.client import ApiClient
from fairburst.kube.api.errors import ApiError, NotFound
from fairburst.kube.api.saved import SAVE_SECONDS, SavedText, job_runs_name
from fairburst.kube.jobs.elastic_jobs import LearnedCurve
from fairburst.telemetry.log import event

logger = logging.getLogger(__name__)

VERSION = 1
KEY = "job-runs.json"


class LearnedCurves:
    """The runs of all families and their fitted curves. A family is fitted again after a new run."""

    def __init__(self, observations: Observations | None = None) -> None:
        self.observations = Observations()
        self.curves: dict[str, LearnedCurve] = {}
        self.refusals: dict[str, Refusal] = {}
        self.remember(observations or Observations())

    def remember(self, observations: Observations) -> None:
        """Adopt the runs of an earlier process. Those recorded before this call count as later ones."""
        for family, known in self.observations.families.items():
            for run in known.runs:
                observations = record(observations, family, run, known.seen)
        self.observations = observations
        self.curves, self.refusals = {}, {}
        for family in observations.families:
            self._fit(family)

    def completed(self, family: str, run: Run, wall: float) -> None:
        """Record one run. `wall` is in seconds since the epoch."""
        self.observations = record(self.observations, family, run, wall)
        self._fit(family)
        for known in (self.curves, self.refusals):
            for gone in known.keys() - self.observations.families.keys():
                del known[gone]

    def runs(self, family: str | None) -> tuple[Run, ...]:
        """Return the recorded runs of a family."""
        return self.observations.of(family) if family is not None else ()

    def _fit(self, family: str) -> None:
        found = fit_runs(self.observations.of(family))
        self.curves.pop(family, None)
        self.refusals.pop(family, None)
        match found:
            case Fit(curve, shortest_seconds, _):
                self.curves[family] = LearnedCurve(curve, shortest_seconds)
            case Refusal():
                self.refusals[family] = found


class RunStore:
    """Loads and saves one pool's runs. `unreadable`: why the saved data is unusable, None if it is usable."""

    def __init__(self, client: ApiClient, namespace: str, pool: str) -> None:
        self.text = SavedText(client, namespace, job_runs_name(pool), KEY)
        self._saved = Observations()
        self._next_save = 0.0
        self._untouchable = self._is_unread = False
        self.unreadable: str | None = None

    async def load(self) -> Observations:
        """Return the saved runs, or none if the saved data is unusable or cannot be read yet."""
        return await self._load(logging.ERROR)

    async def load_late(self) -> Observations | None:
        """Try again, every few seconds, what the API server failed to answer to `load`. Return None if there is nothing new."""
        if not self._is_unread or time.monotonic() < self._next_save:
            return None
        self._next_save = time.monotonic() + SAVE_SECONDS
        found = await self._load(logging.DEBUG)
        return None if self._is_unread else found

    async def _load(self, level: int) -> Observations:
        self._saved, self.unreadable, self._untouchable, self._is_unread = Observations(), None, False, False
        try:
            self._saved = self._read(await self.text.read())
        except NotFound:
            pass
        except (ApiError, ValueError, RecursionError) as error:
            self._is_unread = isinstance(error, ApiError)
            self.text.discard()
            self.unreadable = str(error)
            event(logger, level, "job runs not readable, no curve is learned from them", name=self.text.name, problem=str(error))
        return self._saved

    async def save(self, observations: Observations) -> None:
        """Write the runs if they differ from the saved ones. A failure is logged and retried later."""
        now = time.monotonic()
        if observations == self._saved or self._untouchable or self._is_unread or now < self._next_save:
            return
        content = json.dumps({"version": VERSION, "families": as_values(observations)})
        self._next_save = now + SAVE_SECONDS
        try:
            if await self.text.write(content):
                self._saved, self.unreadable = observations, None
        except ApiError as error:
            event(logger, logging.DEBUG, "job runs not saved", name=self.text.name, problem=str(error))

    def _read(self, text: object) -> Observations:
        content = json.loads(text) if isinstance(text, str) else None
        if not isinstance(content, Mapping) or not isinstance(content.get("families"), Mapping):
            raise ValueError(f"expected JSON with families in {KEY}, found something else; it is replaced by what is learned from now on")
        version = content.get("version")
        if version != VERSION:
            self._untouchable = True
            raise ValueError(
                f"expected version {VERSION} of {KEY}, found {version!r}; it is left as it is. Delete the ConfigMap to start again, or run "
                "the operator that wrote it"
            )
        return from_values(content["families"])
