"""Errors of the recording package.

RecordingError    a file cannot be read as a recording
"""

from __future__ import annotations


class RecordingError(Exception):
    """A recording cannot be read. The message names file and line, what was expected and what was found."""
