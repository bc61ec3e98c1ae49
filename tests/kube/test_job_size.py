"""Small Jobs, in the operator's own arithmetic. tests/t1/test_job_size.py tests the API server's with the same table."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairburst.kube.api.objects import Job
from fairburst.kube.jobs.job_size import full_request, size_of
from fairburst.kube.usage.effective_requests import in_units, milli
from tests.support.job_sizes import SIZES, THRESHOLD, job_manifest

LIMIT = in_units({resource: milli(text) for resource, text in THRESHOLD.items()})


@pytest.mark.parametrize(("manifest", "want"), SIZES)
def test_a_job_is_small_if_all_it_asks_for_at_once_is_within_the_threshold(manifest: dict[str, Any], want: str) -> None:
    assert size_of(msgspec.convert(manifest, Job), LIMIT) == want


def test_without_a_threshold_every_job_is_large() -> None:
    assert size_of(msgspec.convert(job_manifest(), Job), {}) == "large"


def test_the_full_request_is_one_pods_charge_times_the_pods_at_once() -> None:
    job = msgspec.convert(job_manifest(parallelism=7, completions=5), Job)
    assert full_request(job) == {"cpu": 5.0, "memory": 5 * 2.0**30}
