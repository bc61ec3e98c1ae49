"""What can go wrong with a recording.

RecordingError    a file can't be read as one
"""

from __future__ import annotations


class RecordingError(Exception):
    """A recording can't be read. The message names file and line, what was expected and what was found."""
