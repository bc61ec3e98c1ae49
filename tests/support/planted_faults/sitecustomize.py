"""Faults in the rounds of an operator's process that nothing outside of it can cause. Python imports this by its name from $PYTHONPATH.

A file in the folder $FAIRBURST_FAULTS switches one on: `fail` (each round raises), `hang` (the round never ends, the process serves its
metrics), `slow` (deciding takes 1.3 s). Without files rounds are as ever.
"""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

FOLDER = os.environ.get("FAIRBURST_FAULTS")
SLOW_SECONDS = 1.3


def plant(folder: Path) -> None:
    """Put the faults into the scheduling loop and its engine."""
    from fairburst.kube.engine import Engine
    from fairburst.kube.loop import SchedulingLoop

    whole, decided = SchedulingLoop._round, Engine.round

    async def faulty(loop: SchedulingLoop) -> float:
        while (folder / "hang").exists():  # noqa: ASYNC110  a file is no event
            await asyncio.sleep(0.2)
        return await whole(loop)

    def deciding(engine: Engine, *arguments: Any) -> Any:
        if (folder / "fail").exists():  # here, because the loop has taken note of all changes by then, as with any real fault
            raise RuntimeError("planted by a test")
        if (folder / "slow").exists():
            time.sleep(SLOW_SECONDS)
        return decided(engine, *arguments)

    SchedulingLoop._round, Engine.round = faulty, deciding  # type: ignore[method-assign]


if FOLDER:
    plant(Path(FOLDER))
