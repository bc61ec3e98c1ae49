"""What the commands share."""

from __future__ import annotations

import argparse
from typing import TypeAlias

from fairburst.config import Config, load_config

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def config_of(given: argparse.Namespace) -> Config:
    """The configuration named by --config, else all defaults. Raises ConfigError."""
    return Config() if given.config is None else load_config(given.config)
