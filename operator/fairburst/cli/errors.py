"""Errors of the command line, and the exit statuses (docs/cli.md).

CommandError    the command cannot do its work: one line on standard error, and `status`
"""

from __future__ import annotations

DONE = 0
FAILED = 1  # the command failed, or found something wrong
WRONG_ARGUMENTS = 2
NO_CLUSTER = 3  # the cluster cannot be reached, refuses, or has no fairburst
WORSE = 4  # `fairburst plan`: a queue would be worse off than before
INTERRUPTED = 130

STATUSES = {
    DONE: "done",
    FAILED: "it failed, or found something that is not as it should be; the reason is on standard error",
    WRONG_ARGUMENTS: "wrong arguments; nothing was done",
    NO_CLUSTER: "the cluster cannot be reached, refuses the request, or has no fairburst",
    WORSE: "`fairburst plan`: a queue would be promised less than before, or miss bursts that it meets now",
    INTERRUPTED: "interrupted (Ctrl-C)",
}


class CommandError(Exception):
    """The command cannot do its work. The message says what was expected, what was found and what to do."""

    def __init__(self, message: str, status: int = FAILED) -> None:
        super().__init__(message)
        self.status = status
