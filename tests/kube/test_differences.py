"""Changes of a store since the last look: what is new, gone or differs, and nothing else."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st

from fairburst.kube.rounds.differences import BLOCK, Differences

VERSIONS = st.lists(st.dictionaries(st.integers(0, 12), st.integers(0, 3)), max_size=6)


@given(VERSIONS)
def test_finds_exactly_the_keys_whose_value_differs(stores: list[dict[int, int]]) -> None:
    differences, former = Differences[int](), dict[int, dict[str, int]]()
    for versions in stores:
        store = {key: {"name": key, "version": version} for key, version in versions.items()}
        assert differences.since_last(store) == {key for key in store.keys() | former.keys() if store.get(key) != former.get(key)}
        former = store


def test_finds_one_of_thousands() -> None:
    store = {number: [number] for number in range(5 * BLOCK + 3)}
    differences = Differences[int]()
    differences.since_last(store)
    for key in (0, BLOCK - 1, BLOCK, 5 * BLOCK + 2):
        store[key] = [-1, key]
        assert differences.since_last(store) == {key}


def test_a_copy_is_no_change() -> None:
    """A watch that begins again lists every object."""
    store = {number: {"name": number} for number in range(2 * BLOCK)}
    differences = Differences[int]()
    differences.since_last(store)
    assert differences.since_last(copy.deepcopy(store)) == set()


def test_a_key_that_goes_and_returns_is_no_change_if_its_value_is_the_same() -> None:
    differences, store = Differences[str](), {"a": [1], "b": [2]}
    differences.since_last(store)
    assert differences.since_last({"b": [2], "a": [1]}) == set()
