"""`kubectl_complete-fairburst`: kubectl runs it to complete the words after `kubectl fairburst`."""

from __future__ import annotations

import contextlib
import os
import sys

from fairburst.cli.main import main as run

NO_FILES = ":4"  # kubectl's directive: do not offer the names of files


def main() -> int:
    """Print the completions of the last word, one a line, and the directive."""
    words = ["fairburst", *sys.argv[1:]]
    os.environ |= {"_FAIRBURST_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    with contextlib.suppress(SystemExit):
        run([])
    sys.stdout.write(f"{NO_FILES}\n")
    return 0
