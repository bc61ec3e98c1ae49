"""The kinds of work: one module each, listed in `registry.py`."""
