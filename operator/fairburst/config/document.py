"""The page docs/configuration.md."""

from __future__ import annotations

from typing import Any

import yaml
from pydantic import BaseModel

from fairburst.config.settings import keys


def to_markdown() -> str:
    """Return the page docs/configuration.md."""
    lines = [
        "# Configuration",
        "",
        "One YAML file, given to `fairburst run --config FILE` and `fairburst manifests --config FILE`. Every key is optional.",
        "Generated from `operator/fairburst/config` by `fairburst config --markdown`.",
        "",
        "| key | default | meaning |",
        "| --- | --- | --- |",
    ]
    for path, field in keys():
        default = field.get_default(call_default_factory=True, validated_data={})
        shown = (
            ""
            if isinstance(default, BaseModel)
            else f"`{yaml.safe_dump(_plain(default), default_flow_style=True, width=1000).splitlines()[0]}`"
        )
        lines.append(f"| `{path}` | {shown} | {field.description} |")
    return "\n".join(lines) + "\n"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
