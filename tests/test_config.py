"""The configuration file: errors name the key and the right value; the documentation is generated from the keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairburst.config import Config, ConfigError, keys, load_config, natural_units, parse_config, to_markdown
from fairburst.policy.dress.values import DressConfig
from fairburst.policy.model import PolicyConfig

ROOT = Path(__file__).parents[1]


def test_an_empty_file_is_all_defaults() -> None:
    assert parse_config("") == Config()
    assert Config().policy() == PolicyConfig(expected_queues=4.0, dress=DressConfig(min_reserve=0.1))


def test_every_key_of_the_file_reaches_its_setting() -> None:
    config = parse_config(
        """
        kubeconfig: /tmp/kubeconfig
        pool: {name: gpu, nodeSelector: {pool: gpu}, declaredCapacity: {cpu: 640, memory: 1280Gi}, autoscaled: true,
               headRoom: {cpu: 500m}, countedResources: [cpu, memory, nvidia.com/gpu]}
        admission: {expectedQueues: 4, maxCycleSeconds: 600, maxProfileEvents: 10}
        allocation: {levelDeadBandPercent: 10, batchMemorySeconds: 0, largestTurnPercent: 40}
        log: {level: DEBUG, json: true}
        """
    )
    assert config.kubeconfig == "/tmp/kubeconfig"  # noqa: S108
    assert natural_units(config.pool.declared_capacity) == {"cpu": 640.0, "memory": 1280 * 2.0**30}
    assert natural_units(config.pool.head_room) == {"cpu": 0.5}
    assert config.pool.counted_resources == ("cpu", "memory", "nvidia.com/gpu")
    assert config.policy() == PolicyConfig(
        expected_queues=4.0,
        max_cycle_seconds=600.0,
        max_profile_events=10,
        level_dead_band=0.1,
        dress=DressConfig(min_reserve=0.1),
        batch_memory_seconds=0.0,
        largest_turn=0.4,
    )
    assert (config.log.level, config.log.json_lines) == ("DEBUG", True)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("admision: {}", "admision: no such key; did you mean admission?", id="misspelt group"),
        pytest.param("pool: {nam: x}", "pool.nam: no such key; did you mean pool.name?", id="misspelt key"),
        pytest.param(
            "expectedQueues: 3", "expectedQueues: no such key; did you mean admission.expectedQueues?", id="key outside its group"
        ),
        pytest.param("pool: {node_selector: {}}", "pool.node_selector: no such key; did you mean pool.nodeSelector?", id="snake case"),
        pytest.param("zzz: 1", "zzz: no such key; remove it", id="nothing like it"),
        pytest.param("metrics: {port: '80'}", "metrics.port: expected a valid integer, found '80'", id="text for a number"),
        pytest.param("metrics: {port: 70000}", "metrics.port: expected less than or equal to 65535, found 70000", id="number too large"),
        pytest.param("log: {level: info}", "log.level: expected 'DEBUG', 'INFO', 'WARNING' or 'ERROR', found 'info'", id="not a choice"),
        pytest.param(
            "pool: {headRoom: {cpu: 5Xi}}",
            "pool.headRoom.cpu: expected a Kubernetes quantity such as 4, 500m or 1.5Gi, found '5Xi'",
            id="no quantity",
        ),
        pytest.param(
            "pool: {headRoom: {cpu: -1}}", "pool.headRoom.cpu: expected a quantity of zero or more, found -1", id="negative quantity"
        ),
        pytest.param("priorityClasses: {hard: 5}", "priorityClasses: expected large < small < soft < hard", id="ladder out of order"),
        pytest.param("pool: {autoscaled: true}", "pool: expected declaredCapacity beside autoscaled: true", id="autoscaled from nothing"),
        pytest.param("pool: 5", "pool: expected keys and values, found 5", id="value for a group"),
        pytest.param("pool: {}\npool: {}", "expected each key once, found 'pool' twice", id="key given twice"),
        pytest.param("- x", "expected keys and values, found list", id="a list"),
        pytest.param("{", "expected YAML", id="no YAML"),
        pytest.param("a: 2026-13-45", "expected YAML", id="no date"),
        pytest.param("[" * 20_000, "expected YAML", id="deep"),
    ],
)
def test_an_error_names_the_key_and_what_was_expected(text: str, want: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, source="fairburst.yaml")
    assert f"fairburst.yaml: {want}" in str(caught.value) or (want in str(caught.value) and "expected YAML" in str(caught.value))


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config("metrics: {port: x}\nlog: {level: x}\nzzz: 1")
    assert len(str(caught.value).splitlines()) == 3


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml: expected a readable YAML file"):
        load_config(tmp_path / "absent.yaml")


def test_every_key_says_what_it_means_and_why_its_default_is_what_it_is() -> None:
    for path, field in keys():
        assert field.description, path
        assert len(field.description.split()) >= 6, f"{path}: expected a meaning and a reason, found {field.description!r}"
        assert not field.is_required(), path


def test_the_documentation_of_the_keys_is_current() -> None:
    documented = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert documented == to_markdown(), "run: fairburst config --markdown > docs/configuration.md"
