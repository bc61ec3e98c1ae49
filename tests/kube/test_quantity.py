"""Quantities: Kubernetes' own grammar and canonical form, checked against exact decimal arithmetic."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairburst.bounds import MOST_AMOUNT
from fairburst.quantity import QuantityError, charged_quantity, format_quantity, parse_exact, parse_quantity

SUFFIXES = {"n": "1e-9", "u": "1e-6", "m": "1e-3", "": "1", "k": "1e3", "M": "1e6", "G": "1e9", "T": "1e12", "P": "1e15", "E": "1e18"}
SUFFIXES |= {suffix: str(1024**power) for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("500m", 0.5),
        ("4", 4.0),
        (7, 7.0),
        ("+2", 2.0),
        ("-2", -2.0),
        ("1.5Gi", 1.5 * 2**30),
        (".5", 0.5),
        ("5.", 5.0),
        ("2e3", 2000.0),
        ("2E3", 2000.0),
        ("2E", 2e18),
        ("1e-3", 0.001),
        ("100n", 1e-7),
        ("0", 0.0),
        pytest.param("0.1n", 1e-9, id="finer than a nano unit is rounded up"),
        pytest.param("1e999999999", MOST_AMOUNT, id="beyond the bounds counts as the most"),
        pytest.param("9Ei", MOST_AMOUNT, id="9Ei is beyond the bounds too"),
    ],
)
def test_quantities_are_read_as_kubernetes_reads_them(text: str | int, want: float) -> None:
    assert parse_quantity(text) == want


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "1 Gi", "Gi", "1gi", "1K", "1mi", "0x10", "1e", "1e1.5", "--1", "1,5", "NaN", "inf", "9" * 65, "١"]
)
def test_an_error_names_the_text_and_what_was_expected(text: str) -> None:
    with pytest.raises(QuantityError, match="expected a Kubernetes quantity such as 4, 500m or 1") as caught:
        parse_quantity(text)
    assert text[:64] in str(caught.value)


def test_a_boolean_is_not_a_quantity() -> None:
    with pytest.raises(QuantityError, match="found True"):
        parse_exact(True)


@given(
    digits=st.from_regex(r"[0-9]{1,9}(\.[0-9]{0,6})?", fullmatch=True),
    suffix=st.sampled_from(sorted(SUFFIXES)),
    sign=st.sampled_from("+- "),
)
def test_parsing_agrees_with_decimal_arithmetic(digits: str, suffix: str, sign: str) -> None:
    text = sign.strip() + digits + suffix
    with localcontext() as context:
        context.prec = 80
        magnitude = Decimal(digits.rstrip(".")) * Decimal(SUFFIXES[suffix])
        nano = Decimal(math.ceil(magnitude * 10**9)) / 10**9
        want = min(nano, Decimal(2**63 - 1)) * (-1 if sign == "-" else 1)
        exact = parse_exact(text)
        assert Decimal(exact.numerator) / Decimal(exact.denominator) == want
    assert parse_quantity(text) == min(max(float(want), -MOST_AMOUNT), MOST_AMOUNT)


@pytest.mark.parametrize(
    ("resource", "value", "want"),
    [
        ("cpu", 400.0, "400"),
        ("cpu", 0.5, "500m"),
        ("cpu", 1.2345, "1234m"),
        ("cpu", 2000.0, "2k"),
        ("cpu", 0.0, "0"),
        ("memory", 800 * 2.0**30, "800Gi"),
        ("memory", 1000.0, "1k"),
        ("memory", 1025.0, "1025"),
        ("memory", 0.0, "0"),
        ("ephemeral-storage", 2048.0, "2Ki"),
        ("nvidia.com/gpu", 8.0, "8"),
        ("nvidia.com/gpu", 1024.0, "1024"),
    ],
)
def test_quantities_are_written_canonically(resource: str, value: float, want: str) -> None:
    assert format_quantity(resource, value) == want


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e30])
def test_what_no_quantity_can_say_is_refused(value: float) -> None:
    with pytest.raises(QuantityError, match="expected a finite number of memory"):
        format_quantity("memory", value)


@given(
    resource=st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), value=st.integers(0, 2**62), suffix=st.sampled_from(["", "m", "Ki", "k"])
)
def test_what_is_charged_survives_writing_and_reading(resource: str, value: int, suffix: str) -> None:
    charged = charged_quantity(resource, f"{value}{suffix}")
    text = format_quantity(resource, charged)
    assert charged_quantity(resource, text) == charged
    assert parse_quantity(text) == charged
    assert format_quantity(resource, parse_quantity(text)) == text


@given(text=st.text(max_size=80) | st.text("0123456789.eE+-KMGTPikmun", max_size=12))
def test_any_text_is_a_finite_quantity_or_a_named_error(text: str) -> None:
    try:
        value = parse_quantity(text)
    except QuantityError:
        return
    assert math.isfinite(value)
