"""`python -m fairburst`: the same as the command."""

from __future__ import annotations

import sys

from fairburst.cli.main import main

sys.exit(main())
