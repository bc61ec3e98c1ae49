"""The audit log as the figures read it, on constructed logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers.audit import AuditLog, Record, events, seconds

NOON = seconds("2026-01-01T12:00:00.000000Z")


def event(
    verb: str, user: str, resource: str, name: str = "", sub: str = "", *, at: float = 0.0, code: int = 200, took: float = 0.0
) -> bytes:
    """Return a line of the log: received `at` seconds after noon, answered `took` later."""
    reference = {"resource": resource, "namespace": "team", "name": name, "subresource": sub}
    body: dict[str, Any] = {
        "kind": "Event",
        "level": "Metadata",
        "verb": verb,
        "user": {"username": user, "groups": ["system:authenticated"]},
        "objectRef": reference,
        "responseStatus": {"code": code},
        "requestReceivedTimestamp": stamp(at),
        "stageTimestamp": stamp(at + took),
    }
    return json.dumps(body).encode() + b"\n"


def stamp(at: float) -> str:
    whole, part = divmod(round(at * 1e6), 10**6)
    return f"2026-01-01T12:{whole // 60:02d}:{whole % 60:02d}.{part:06d}Z"


def life(pod: str, bound: float, running: float, ended: float | None = None) -> list[bytes]:
    lines = [
        event("create", "system:kube-scheduler", "pods", pod, "binding", at=bound - 0.001, took=0.001, code=201),
        event("patch", "kwok", "pods", pod, "status", at=running),
    ]
    return [*lines, event("patch", "kwok", "pods", pod, "status", at=ended)] if ended is not None else lines


def record_of(*lines: bytes) -> Record:
    record = Record()
    for each in events(lines):
        record.see(each)
    return record


def test_times_are_exact_to_a_microsecond() -> None:
    assert seconds("2026-01-01T12:00:01.000001Z") - NOON == pytest.approx(1.000001, abs=2e-7)


def test_a_pod_is_bound_runs_and_ends() -> None:
    made = event("create", "admin", "jobs", "job-1", at=1.0, took=0.5, code=201)
    record = record_of(made, *life("job-1-abcde", 2.0, 2.25, 7.5))
    pod = record.pods["team", "job-1-abcde"]
    assert (pod.queue, pod.job) == ("team", "job-1")
    assert [round(each - NOON, 6) for each in (pod.bound or 0, pod.running or 0, pod.ended or 0)] == [2.0, 2.25, 7.5]
    assert pod.killed is None
    job = record.jobs["team", "job-1"]
    assert job.created - NOON == pytest.approx(1.0)
    assert (job.pods, job.bound, job.ended) == ([pod], 1, 1)


def test_a_pod_may_run_before_its_binding_and_its_job_are_written() -> None:
    bound, running, ended = life("job-1-abcde", 2.0, 2.0, 7.5)
    record = record_of(running, bound, event("create", "admin", "jobs", "job-1", at=1.0, code=201), ended)
    job = record.jobs["team", "job-1"]
    assert (job.bound, job.ended, len(job.pods), job.created) == (1, 1, 1, NOON + 1.0)
    assert (job.pods[0].ended or 0) - NOON == pytest.approx(7.5)


def test_a_pod_that_is_deleted_before_its_end_was_killed() -> None:
    record = record_of(
        *life("job-1-abcde", 2.0, 2.25),
        event("delete", "system:serviceaccount:kube-system:job-controller", "pods", "job-1-abcde", at=5.0),
        event("patch", "kwok", "pods", "job-1-abcde", "status", at=5.1),  # failed, which does not count as an end
        event("delete", "kwok", "pods", "job-1-abcde", at=5.2),
    )
    pod = record.pods["team", "job-1-abcde"]
    assert pod.ended is None
    assert (pod.killed or 0) - NOON == pytest.approx(5.0)


def test_a_pod_that_is_evicted_was_killed_and_its_successor_was_not() -> None:
    record = record_of(
        event("create", "admin", "jobs", "job-1", code=201),
        *life("job-1-abcde", 2.0, 2.25),
        event("create", "fairburst", "pods", "job-1-abcde", "eviction", at=4.0, code=201),
        *life("job-1-fghij", 6.0, 6.5, 9.0),
    )
    assert [pod.killed is None for pod in record.jobs["team", "job-1"].pods] == [False, True]
    assert record.jobs["team", "job-1"].ended == 1


def test_a_pod_that_is_cleaned_away_after_its_end_was_not_killed() -> None:
    record = record_of(
        *life("job-1-abcde", 2.0, 2.25, 7.0), event("delete", "ttl-after-finished-controller", "pods", "job-1-abcde", at=17.0)
    )
    assert record.pods["team", "job-1-abcde"].killed is None


def test_refused_requests_change_no_life() -> None:
    record = record_of(
        event("create", "system:kube-scheduler", "pods", "job-1-abcde", "binding", code=409),
        event("create", "system:serviceaccount:kube-system:job-controller", "pods", code=403),
        event("create", "admin", "jobs", "job-1", code=500),
    )
    assert (record.pods, record.jobs, record.refused) == ({}, {}, 1)


def test_an_eviction_that_a_budget_refuses_kills_nobody() -> None:
    record = record_of(*life("job-1-abcde", 2.0, 2.25), event("create", "fairburst", "pods", "job-1-abcde", "eviction", code=429))
    assert record.pods["team", "job-1-abcde"].killed is None


def test_conditions_that_the_scheduler_writes_are_not_the_kubelets() -> None:
    waiting = event("patch", "system:kube-scheduler", "pods", "job-1-abcde", "status", at=3.0)
    record = record_of(*life("job-1-abcde", 2.0, 2.25), waiting)
    assert record.pods["team", "job-1-abcde"].ended is None


def test_requests_are_counted_by_user() -> None:
    record = record_of(*life("job-1-abcde", 2.0, 2.25, 7.0), event("create", "system:serviceaccount:kube-system:job-controller", "events"))
    assert record.requests_by() == {"kube-scheduler": 1, "kwok": 2, "job-controller": 1}


def test_a_log_is_read_as_it_grows_and_half_a_line_waits(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    first, second = event("create", "admin", "jobs", "job-1", code=201), event("create", "admin", "jobs", "job-2", code=201)
    path.write_bytes(event("create", "admin", "jobs", "earlier", code=201))
    log = AuditLog(path)
    log.skip()
    with path.open("ab") as file:
        file.write(first + second[:40])
        file.flush()
        assert [name for _, name in log.read().jobs] == ["job-1"]
        file.write(second[40:])
        file.flush()
        assert [name for _, name in log.read().jobs] == ["job-1", "job-2"]


def test_what_the_log_holds_before_a_run_is_skipped_to_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    line = event("create", "admin", "jobs", "job-1", code=201).rstrip(b"\n")
    path.write_bytes(line + b"\n" + line[:40])
    log = AuditLog(path)
    log.skip()
    with path.open("ab") as file:
        file.write(line[40:] + b"\n")
    assert len(log.read().jobs) == 1
