"""For every test: Hypothesis without time limits, which a busy machine would break, and with the same examples each time."""

import pytest

from tests.support import profiles

# The files without a control plane that take longest.
LONG_FILES = {"test_example.py", "test_harness.py", "test_simulation.py", "test_turns_of_whole_work.py", "test_whole_pods.py"}

profiles.load()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long files first, so that no worker runs one when the others have nothing left (`--no-loadscope-reorder`)."""
    items.sort(key=lambda item: item.path.name not in LONG_FILES and item.get_closest_marker("t1") is None)
