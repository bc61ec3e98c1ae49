"""The modes of enforcement: one module each, listed in `registry.py`."""
