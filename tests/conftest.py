"""For every test: Hypothesis without time limits, which a busy machine would break, and with the same examples each time."""

from tests.support import profiles

profiles.load()
