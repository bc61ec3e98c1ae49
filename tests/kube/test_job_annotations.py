"""A Job's declarations about its elasticity and the operator's notes on it: built and read back, or refused with the reason."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.kube.api.objects import Job
from fairburst.kube.queues.job_annotations import (
    CURVE,
    GIVEN,
    JOB_WEIGHT,
    MAXIMUM,
    MINIMUM,
    ORIGINAL,
    Declaration,
    MalformedAnnotationError,
    Mark,
    family_of,
    mark_annotations,
    read_declaration,
    read_mark,
)
from fairburst.policy.paf.curves import ErnestCurve, PointsCurve
from tests.support.elastic_queues import declaration_annotations
from tests.support.objects import job

RISING = PointsCurve((1.0, 4.0, 8.0), (0.25, 0.8, 1.0))
positive = st.floats(1e-3, 1e3)
ernest = st.builds(ErnestCurve, positive, positive, positive.map(lambda a2: a2 + 1e4), positive, st.none() | st.just(2), st.just(9))
bounds = st.none() | st.integers(1, 100)


@given(
    curve=st.none() | st.just(RISING) | ernest,
    alone=st.none() | st.floats(0.1, 1e6),
    both=st.tuples(bounds, bounds),
    weight=st.integers(1, 10**6).map(lambda milli: milli / 1000),
)
def test_a_declaration_is_read_back_as_it_was_built(
    curve: ErnestCurve | PointsCurve | None, alone: float | None, both: tuple[int | None, int | None], weight: float
) -> None:
    minimum, maximum = both
    if minimum is not None and maximum is not None:
        minimum, maximum = min(minimum, maximum), max(minimum, maximum, 2)
    elif maximum == 1:
        maximum = 2  # a curve that may have one slot only cannot rise
    declared = Declaration(curve, alone if curve is not None else None, minimum, maximum, weight)
    assert read_declaration(declaration_annotations(declared)) == declared


def test_a_job_without_annotations_declares_nothing() -> None:
    assert read_declaration(None) == read_declaration({"other": "x"}) == Declaration()


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param({MINIMUM: "0"}, f"{MINIMUM}: expected a whole number from 1", id="no pod at all"),
        pytest.param({MAXIMUM: "-3"}, f"{MAXIMUM}: expected a whole number", id="negative"),
        pytest.param({MAXIMUM: "8.5"}, f"{MAXIMUM}: expected a whole number", id="a fraction"),
        pytest.param({MAXIMUM: "9" * 5000}, "characters)", id="a very long number"),
        pytest.param({MAXIMUM: "٣"}, f"{MAXIMUM}: expected a whole number", id="digits of another script"),
        pytest.param({MINIMUM: "9", MAXIMUM: "8"}, "found 9 > 8", id="minimum above maximum"),
        pytest.param({JOB_WEIGHT: "0"}, f"{JOB_WEIGHT}: expected a number above 0", id="no weight"),
        pytest.param({JOB_WEIGHT: "nan"}, f"{JOB_WEIGHT}: expected a number above 0", id="weight is no number"),
        pytest.param({CURVE: "0.5"}, 'expected an object with "coefficients" or "points"', id="a bare number"),
        pytest.param({CURVE: "{"}, "expected JSON", id="no JSON"),
        pytest.param({CURVE: "[" * 16_000}, "expected JSON", id="nested without end"),
        pytest.param({CURVE: "{}"}, 'expected an object with "coefficients" or "points"', id="neither form"),
        pytest.param({CURVE: '{"points": [], "coefficients": []}'}, 'expected an object with "coefficients" or', id="both forms"),
        pytest.param({CURVE: '{"point": [[1, 1]]}'}, 'expected an object with "coefficients" or', id="misspelt form"),
        pytest.param({CURVE: '{"points": [[1, 0.5], [2, 1]], "alone": 5}'}, "no such key: 'alone'", id="misspelt key"),
        pytest.param({CURVE: r'{"points": [], "\ud800": 5}'}, r"no such key: '\ud800'", id="a key that cannot be sent in a message"),
        pytest.param({CURVE: '{"points": [[1, 0.5], [2, 1]], "lowest": 1}'}, "no such key: 'lowest'", id="bounds of another form"),
        pytest.param({CURVE: '{"points": [[1, 0.5]]}'}, "expected at least two points", id="one data point"),
        pytest.param({CURVE: '{"points": []}'}, "expected at least two points", id="no data point"),
        pytest.param({CURVE: '{"points": [[4, 0.5], [2, 1]]}'}, "expected ascending slots", id="slots out of order"),
        pytest.param({CURVE: json.dumps({"points": [[-n, 1] for n in range(256)]})}, "expected ascending slots", id="many out of order"),
        pytest.param({CURVE: '{"points": [[1, 0.5], [2, NaN]]}'}, "expected points as", id="not a number"),
        pytest.param({CURVE: '{"points": [[1, true], [2, 1]]}'}, "expected points as", id="truth for a number"),
        pytest.param({CURVE: '{"points": {"1": 0.5}}'}, "expected points as", id="a map of points"),
        pytest.param({CURVE: '{"points": [[1, -0.5], [2, 1]]}'}, "expected progress >= 0", id="negative progress"),
        pytest.param({CURVE: '{"points": [[1, 0.7], [9, 0.7]]}'}, "expected a curve that rises", id="never rises"),
        pytest.param({CURVE: json.dumps({"points": [[n, n] for n in range(300)]})}, "at most 256 points", id="too many points"),
        pytest.param({CURVE: '{"coefficients": [1, 2, 3]}'}, "expected four coefficients", id="three coefficients"),
        pytest.param({CURVE: '{"coefficients": [1, 2, 3, 1e999]}'}, "expected four coefficients", id="infinite"),
        pytest.param({CURVE: '{"coefficients": [1, 2, 3, "4"]}'}, "expected four coefficients", id="text for a number"),
        pytest.param({CURVE: '{"coefficients": [-1, 0, 4, 0]}', MAXIMUM: "32"}, "expected 1/p above 0 from 1 to 32", id="a pole in range"),
        pytest.param({CURVE: '{"coefficients": [1, 0, 0, 0]}', MAXIMUM: "32"}, "expected a curve that rises", id="flat form"),
        pytest.param({CURVE: '{"coefficients": [0, 0, 1, 0], "highest": 0}'}, "expected highest between 1", id="no range"),
        pytest.param({CURVE: '{"points": [[1, 0.5], [2, 1]], "aloneSeconds": 0}'}, "expected aloneSeconds greater", id="no time at all"),
    ],
)
def test_what_is_malformed_is_named_with_expectation_and_finding(annotations: dict[str, str], want: str) -> None:
    with pytest.raises(MalformedAnnotationError) as caught:
        read_declaration(annotations)
    assert want in str(caught.value)
    assert len(str(caught.value)) < 400


@given(annotations=st.dictionaries(st.sampled_from([CURVE, MINIMUM, MAXIMUM, JOB_WEIGHT]), st.text() | st.from_regex(r"[-0-9.eE]{1,8}")))
def test_any_text_is_a_declaration_or_is_refused(annotations: dict[str, str]) -> None:
    try:
        declared = read_declaration(annotations)
    except MalformedAnnotationError as error:
        assert "expected" in str(error) or "no such key" in str(error)  # noqa: PT017  either outcome is right, a third is not
        return
    assert declared.weight > 0
    assert (declared.minimum or 1) <= (declared.maximum or 10**6)


@given(original=st.integers(0, 10**5), given_=st.integers(0, 10**5), micro=st.integers(0, 4 * 10**15))
def test_a_mark_is_read_back_as_it_was_built(original: int, given_: int, micro: int) -> None:
    mark = Mark(original, given_, micro / 10**6)
    written = {name: text for name, text in mark_annotations(mark).items() if text is not None}
    read = read_mark(written)
    assert read is not None
    assert (read.original, read.given) == (original, given_)
    assert read.changed_at == pytest.approx(mark.changed_at, abs=1e-6)


@pytest.mark.parametrize("damage", [{ORIGINAL: "x"}, {GIVEN: ""}, {ORIGINAL: "-1"}, {"fairburst.dev/parallelism-changed-at": "2026-01-01"}])
def test_a_damaged_mark_is_none(damage: dict[str, str]) -> None:
    whole = {name: text or "" for name, text in mark_annotations(Mark(8, 4, 1.0)).items()}
    assert read_mark(whole) is not None
    assert read_mark(whole | damage) is None


def test_removing_a_mark_leaves_none_of_its_annotations() -> None:
    assert set(mark_annotations(None)) == set(mark_annotations(Mark(1, 1, 1.0)))
    assert set(mark_annotations(None).values()) == {None}


def made(name: str, owner: str = "", label: str = "", completions: int = 40) -> Job:
    found = job("batch", name, 4, completions=completions)
    found.metadata.labels = {"fairburst.dev/family": label} if label else None
    if owner:
        found.metadata.owner_references = [job_owner(owner)]
    return found


def job_owner(name: str):  # type: ignore[no-untyped-def]
    from fairburst.kube.api.objects import OwnerReference

    return OwnerReference(uid=name, kind="CronJob", name=name, controller=True)


@pytest.mark.parametrize(
    ("run", "want"),
    [
        pytest.param(made("a-x7k2p", owner="nightly", label="etl"), "batch/etl", id="the label goes first"),
        pytest.param(made("nightly-28391040", owner="nightly"), "batch/nightly/40", id="the CronJob"),
        pytest.param(made("clean-x7k2p"), "batch/clean/40", id="generateName"),
        pytest.param(made("clean-28391040"), "batch/clean/40", id="a CronJob's run whose CronJob has gone"),
        pytest.param(made("clean-x7k2p", completions=80), "batch/clean/80", id="other work"),
        pytest.param(made("clean-x7k2p", completions=4), "batch/clean", id="each pod completes once"),
        pytest.param(made("clean-house"), None, id="one of a kind"),
    ],
)
def test_the_family_of_a_run(run: Job, want: str | None) -> None:
    assert family_of(run) == want
