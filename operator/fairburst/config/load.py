"""Read a configuration file: YAML, validated as a whole, with every problem in one error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from fairburst.config.settings import Config, keys
from fairburst.validation import problems_of


class ConfigError(Exception):
    """The configuration file is unusable. The message lists every problem, one a line."""


def load_config(path: str | Path) -> Config:
    """Read and validate a configuration file; an empty one is all defaults. Raises ConfigError with every problem, naming the file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: expected a readable YAML file: {error}") from error
    return parse_config(text, source=str(path))


def parse_config(text: str, source: str = "configuration") -> Config:
    """Validate the text of a configuration file. Raises ConfigError with every problem, one a line, each beginning with `source`."""
    try:
        content = yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506  a SafeLoader
    except Exception as error:  # for a wrong date or a deep nesting, the library passes on errors of Python
        raise ConfigError(f"{source}: expected YAML: {' '.join(str(error).split())}") from error
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise ConfigError(f"{source}: expected keys and values, found {type(content).__name__}")
    try:
        return Config.model_validate(_tuples(content), by_alias=True, by_name=False)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{source}: {problem}" for problem in problems_of(error, [path for path, _ in keys()]))) from error


def _tuples(content: Any) -> Any:
    """Return the content with lists as tuples. Strict validation, which keeps "5" from passing as 5, requires tuples."""
    if isinstance(content, dict):
        return {key: _tuples(value) for key, value in content.items()}
    return tuple(_tuples(value) for value in content) if isinstance(content, list) else content


class _UniqueKeyLoader(yaml.SafeLoader):
    """A safe loader that refuses a duplicate key; YAML would silently keep the last one."""


def _unique_mapping(loader: _UniqueKeyLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[str] = set()
    for key_node, _ in node.value:
        if key_node.value in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"expected each key once, found {key_node.value!r} twice", key_node.start_mark
            )
        seen.add(str(key_node.value))
    return loader.construct_mapping(node, deep=True)


_UniqueKeyLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _unique_mapping)
