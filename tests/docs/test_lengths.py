"""Modules and functions of the operator fit a reader's attention. Decorators and docstrings count."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted([*(ROOT / "operator").rglob("*.py"), *(ROOT / "e2e").rglob("*.py")])
MODULE_LINES = 400
ENGINE, ENGINE_LINES = "operator/fairburst/kube/engine.py", 250  # it lists the steps of a round, and each step has its own module
FUNCTION_LINES = 60
# Longer functions, with the reason for each.
EXEMPT = {
    ("operator/fairburst/sim/table4_loop.py", "run_steps"): "compiled as a whole by numba, whose loop over plain arrays calls nothing",
}


def functions(parent: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield (name, lines) of all functions and methods below a node, nested ones included."""
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min(part.lineno for part in (node, *node.decorator_list))
            yield node.name, (node.end_lineno or first) - first + 1
        if not isinstance(node, ast.expr):
            yield from functions(node)


@pytest.fixture(scope="module")
def long_functions() -> dict[tuple[str, str], int]:
    """The functions over the limit, by module and name, with their lines."""
    return {
        (str(module.relative_to(ROOT)), name): lines
        for module in MODULES
        for name, lines in functions(ast.parse(module.read_text(encoding="utf-8")))
        if lines > FUNCTION_LINES
    }


def test_no_module_is_longer_than_its_limit() -> None:
    lines = {str(module.relative_to(ROOT)): len(module.read_text(encoding="utf-8").splitlines()) for module in MODULES}
    found = {name: count for name, count in lines.items() if count > MODULE_LINES}
    assert not found, f"expected at most {MODULE_LINES} lines"
    assert lines[ENGINE] <= ENGINE_LINES


def test_no_function_is_longer_than_its_limit(long_functions: dict[tuple[str, str], int]) -> None:
    found = {where: lines for where, lines in long_functions.items() if where not in EXEMPT}
    assert not found, f"expected at most {FUNCTION_LINES} lines"


def test_every_exempt_function_is_still_too_long(long_functions: dict[tuple[str, str], int]) -> None:
    assert long_functions.keys() >= EXEMPT.keys(), "expected no exemption of a function that fits"
