"""Rounds on file: what the operator saw, remembered and decided, and the same decided again (docs/recordings.md)."""
