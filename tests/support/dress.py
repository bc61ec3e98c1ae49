"""DRESS's input from single jobs and tasks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fairburst.policy.arrays import FloatArray
from fairburst.policy.dress.values import DemandCategory, Job, JobsPart, TaskTable


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One task (a pod). `ended` is None while it runs, `key` names it, `job` names its Job, request is (R,)."""

    key: str
    job: str
    category: DemandCategory
    request: FloatArray
    started: float
    ended: float | None = None
    family: str = ""


def task_table(tasks: Iterable[Task], width: int) -> TaskTable:
    """The columns of these tasks; `width` is the number of resources."""
    rows = sorted(tasks, key=lambda task: (task.job, task.started, task.key))
    number = {name: at for at, name in enumerate(dict.fromkeys(task.job for task in rows))}
    families = tuple(sorted({task.family for task in rows if task.family}))
    at_family = {name: at for at, name in enumerate(families)}
    return TaskTable(
        job=np.array([number[task.job] for task in rows], dtype=np.int64),
        small=np.array([task.category is DemandCategory.SMALL for task in rows], dtype=np.bool_),
        request=np.array([task.request for task in rows], dtype=np.float64).reshape(len(rows), width),
        started=np.array([task.started for task in rows], dtype=np.float64),
        ended=np.array([math.nan if task.ended is None else task.ended for task in rows], dtype=np.float64),
        family=np.array([at_family.get(task.family, -1) for task in rows], dtype=np.int64),
        families=families,
        by_start=True,
    )


def jobs_part(pending: Iterable[Job], running: Iterable[Job], tasks: Iterable[Task], width: int) -> JobsPart:
    """The jobs of a snapshot; `width` is the number of resources."""
    return JobsPart(tuple(pending), tuple(running), task_table(tasks, width))
