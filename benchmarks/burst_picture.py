"""The picture in the README: one burst next to four batch queues, under fair sharing and under fairburst, from a simulator run.

`python -m benchmarks.burst_picture` writes docs/burst.svg again. Each run gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairburst.sim.cluster import Cluster
from fairburst.sim.engine import run
from fairburst.sim.experiment import LATENCY_QUEUE, batch_with_bursts
from fairburst.sim.scenario import Scenario
from fairburst.sim.sink import Record
from fairburst.sim.workload import DagJob, Stage

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "burst.svg"
CORES, BATCH_QUEUES, BURST_TASKS, TASK_SECONDS = 200, 4, 200, 20.0
PERIOD, FIRST, DEADLINE, UNTIL = 300.0, 300.0, 45.0, 900.0
FROM, TO = 570.0, 720.0  # the second burst arrives at 600 s
SEED = 1

WIDTH, LEFT, PANEL, TOP, GAP = 760, 50, 130, 46, 52
BURST, BATCH, INK = "#d97706", "#8fb3d9", "#777"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run: seconds from each burst's arrival to its end, the mean use of the cluster, and the run itself."""

    completions: tuple[float, ...]
    utilisation: float
    record: Record


def scenario() -> Scenario:
    """Return 200 cores, four batch queues that always want all of them, and a burst of 200 tasks every five minutes."""
    random = np.random.default_rng(SEED)
    batch = [
        DagJob(f"batch-{queue}-{job}", (Stage("work", 40, float(random.integers(5, 31)), (1.0,)),), 0.0, f"tq-{queue}")
        for queue in range(BATCH_QUEUES)
        for job in range(80)
    ]
    burst = DagJob("burst", (Stage("query", BURST_TASKS, TASK_SECONDS, (1.0,)),))
    cluster = Cluster(("cpu",), ((20.0,),) * (CORES // 20))
    return batch_with_bursts(
        cluster, batch, BATCH_QUEUES, [burst], period=PERIOD, on_seconds=DEADLINE, first=FIRST, until=UNTIL, round_seconds=0.0
    )


def outcome(policy: str) -> Outcome:
    """Run the scenario under a policy."""
    record = run(scenario(), policy, record_use=True)
    completions = tuple(round(job.completion, 1) for job in record.ended(LATENCY_QUEUE))
    return Outcome(completions, record.utilisation["cpu"], record)


def _area(times: Sequence[float], values: Sequence[float], base: float, color: str) -> str:
    """Return the area below a step function, cut to the picture's time."""

    def x(time: float) -> float:
        return LEFT + (min(max(time, FROM), TO) - FROM) / (TO - FROM) * (WIDTH - LEFT - 20)

    inside = [index for index in range(len(times)) if times[index] <= TO and (index + 1 == len(times) or times[index + 1] >= FROM)]
    path = [f"M{x(times[inside[0]]):.1f} {base}"]
    for index in inside:
        path.append(f"V{base - values[index] / CORES * PANEL:.1f}H{x(times[index + 1] if index + 1 < len(times) else TO):.1f}")
    return f'<path d="{"".join(path)}V{base}Z" fill="{color}"/>'


def _panel(title: str, found: Outcome, top: float) -> list[str]:
    record, base = found.record, top + PANEL
    row = [spec.name for spec in record.queues].index(LATENCY_QUEUE)
    burst = [float(use[row, 0]) for use in record.use]
    total = [float(use[:, 0].sum()) for use in record.use]

    def x(time: float) -> float:
        return LEFT + (time - FROM) / (TO - FROM) * (WIDTH - LEFT - 20)

    arrival = FIRST + PERIOD
    took = found.completions[1]
    verdict = "met" if took <= DEADLINE else "missed"
    return [
        f'<text x="{LEFT}" y="{top - 10}" font-weight="bold">{title}: done after {took:g} s, deadline {DEADLINE:g} s {verdict}</text>',
        _area(record.times, total, base, BATCH),
        _area(record.times, burst, base, BURST),
        f'<path d="M{LEFT} {base}H{WIDTH - 20}M{LEFT} {base}V{top}" stroke="{INK}" fill="none"/>',
        f'<path d="M{x(arrival):.1f} {base + 4}V{top}M{x(arrival + DEADLINE):.1f} {base + 4}V{top}" stroke="#b00" stroke-dasharray="4 3"/>',
        f'<text x="{x(arrival):.1f}" y="{base + 18}" text-anchor="middle">burst arrives</text>',
        f'<text x="{x(arrival + DEADLINE):.1f}" y="{base + 18}" text-anchor="middle">deadline</text>',
        f'<text x="{LEFT - 6}" y="{base}" text-anchor="end">0</text>',
        f'<text x="{LEFT - 6}" y="{top + 10}" text-anchor="end">{CORES}</text>',
    ]


def picture() -> str:
    """Return the drawing as SVG that is legible on light and dark pages."""
    height = TOP + 2 * PANEL + GAP + 30
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        f'font-family="sans-serif" font-size="13" fill="{INK}">',
        "<title>Cores in use during a burst, under fair sharing and under fairburst</title>",
        f'<rect x="{WIDTH - 230}" y="6" width="12" height="12" fill="{BURST}"/><text x="{WIDTH - 212}" y="16">burst</text>',
        f'<rect x="{WIDTH - 150}" y="6" width="12" height="12" fill="{BATCH}"/><text x="{WIDTH - 132}" y="16">batch, cores</text>',
        *_panel("Fair sharing (DRF)", outcome("drf"), TOP),
        *_panel("fairburst", outcome("bopf"), TOP + PANEL + GAP),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
