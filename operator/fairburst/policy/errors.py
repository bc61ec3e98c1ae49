"""The core's errors: raised only for inputs that break its contract. "Does not fit" and "rejected" are results, not errors.

PolicyError
├── InvalidSnapshotError   shapes disagree, NaN, infinity, negative amounts, duplicate names
├── InvalidSpecError       a queue's declaration that validation should have stopped (zero weight, period of 0, NaN)
├── InvalidConfigError     a setting outside its range
├── MissingPackageError    a declaration needs a package that is not installed (extras.py)
└── MemoryFormatError      saved memory that can't be read
    └── NewerMemoryError   written by a newer version
"""

from __future__ import annotations


class PolicyError(ValueError):
    """Base of all errors of the core."""


class InvalidSnapshotError(PolicyError):
    """The snapshot's arrays disagree with each other or hold values that no cluster has."""


class InvalidSpecError(PolicyError):
    """A queue's declaration breaks the contract of QueueSpec."""


class InvalidConfigError(PolicyError):
    """A setting of PolicyConfig is out of range."""


class MemoryFormatError(PolicyError):
    """Saved memory that can't be read: not our format, or damaged."""


class NewerMemoryError(MemoryFormatError):
    """Saved memory written by a newer version than this one."""
