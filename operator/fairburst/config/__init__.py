"""The operator's configuration: one YAML file, read once at start, validated as a whole, frozen.

Every key documents its meaning, its unit, and the reason for its default; `docs/configuration.md` is generated from that. Keys are
camelCase in the file and snake_case here. An error about an unknown key suggests the nearest valid one.
"""

from fairburst.config.decision import ElasticityConfig
from fairburst.config.document import to_markdown
from fairburst.config.group import natural_units
from fairburst.config.load import ConfigError, load_config, parse_config
from fairburst.config.process import ExtenderConfig, RecordingConfig, RoundConfig
from fairburst.config.settings import Config, keys, usual_lease_name

__all__ = [
    "Config",
    "ConfigError",
    "ElasticityConfig",
    "ExtenderConfig",
    "RecordingConfig",
    "RoundConfig",
    "keys",
    "load_config",
    "natural_units",
    "parse_config",
    "to_markdown",
    "usual_lease_name",
]
