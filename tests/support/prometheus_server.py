"""A Prometheus that scrapes one operator every second and evaluates the chart's alerts, for tests of the alerts on a live operator."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from e2e.harness import free_port
from e2e.waiting import until
from tests.support.promtool import prometheus

RULES = Path(__file__).parents[2] / "charts" / "fairburst" / "rules" / "fairburst.yaml"
START_SECONDS = 30.0
UNITS = {"s": 1, "m": 60, "h": 3600}


class PrometheusServer:
    """Runs as a context manager. Every alert's `for` is divided by `for_divided_by`; expressions and their ranges are the chart's."""

    def __init__(self, folder: Path, target: int, for_divided_by: float) -> None:
        self._folder, self._port = folder, free_port()
        rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))
        for alert in rules["groups"][0]["rules"]:
            alert["for"] = f"{round(1000 * seconds(alert['for']) / for_divided_by)}ms"
        (folder / "rules.yaml").write_text(yaml.safe_dump(rules), encoding="utf-8")
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [{"job_name": "fairburst", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}],
        }
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        self.started = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        arguments = [f"--config.file={self._folder}/prometheus.yaml", f"--storage.tsdb.path={self._folder}/data"]
        arguments += [f"--web.listen-address=127.0.0.1:{self._port}", "--log.level=warn"]
        with (self._folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen([prometheus(), *arguments], stdout=log, stderr=log)
        until(lambda: self.value("fairburst_leader"), START_SECONDS, "Prometheus to have scraped the operator")
        # Before its first scrape no operator is there, which is an alert after two seconds where `for` is so short.
        until(lambda: not self.firing(), START_SECONDS, "no alert to fire")
        self.started = time.time() + 1.0
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)

    def firing(self) -> set[str]:
        """Names of the alerts that fire now."""
        return {one["labels"]["alertname"] for one in self._get("/api/v1/alerts")["alerts"] if one["state"] == "firing"}

    def fired(self) -> set[str]:
        """Names of the alerts that have fired since the start."""
        query = {"query": 'ALERTS{alertstate="firing"}', "start": str(self.started), "end": str(time.time()), "step": "1"}
        return {one["metric"]["alertname"] for one in self._get("/api/v1/query_range?" + urllib.parse.urlencode(query))["result"]}

    def value(self, query: str) -> float | None:
        """The first value of an expression now."""
        with contextlib.suppress(OSError):
            result = self._get("/api/v1/query?" + urllib.parse.urlencode({"query": query}))["result"]
            return float(result[0]["value"][1]) if result else None
        return None

    def _get(self, path: str) -> Any:
        # A loopback address must bypass a proxy in the environment.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self._port}{path}", timeout=10) as answer:
            return json.load(answer)["data"]


def seconds(duration: str) -> float:
    """Return a Prometheus duration such as 1h30m in seconds."""
    return float(sum(int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+)([smh])", duration)))
