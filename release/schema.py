"""values.schema.json: the permitted values of the chart. The part for `config` comes from fairburst.config, the rest is written here.

Every object is closed, so that Helm refuses a misspelt value and names it.
"""

from __future__ import annotations

import json
from typing import Any

from fairburst.config import Config

Schema = dict[str, Any]

# The chart sets these: a pod has a service account, the release a namespace, the webhook's certificate a mount, and ports are values.
SET_BY_THE_CHART = ("kubeconfig", "context", "namespace", "webhook", "extender")


def values_schema() -> Schema:
    """Return the whole schema."""
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of the fairburst chart"} | _VALUES


def to_json(schema: Schema) -> str:
    """Return the text of the file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def configuration_schema() -> Schema:
    """Return the schema of `config` from the pydantic models, with references inlined, without defaults and SET_BY_THE_CHART."""
    whole = Config.model_json_schema(by_alias=True)
    schema = _inlined(whole, whole.get("$defs", {}))
    for name in SET_BY_THE_CHART:
        del schema["properties"][name]
    schema["properties"]["metrics"]["properties"]["port"]["minimum"] = 1  # 0 would choose a port that probes and scrapes don't know
    pool = schema["properties"]["pool"]["properties"]
    pool["name"]["pattern"] = "^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$"
    pool["nodeSelector"]["additionalProperties"] = {"type": "string"}  # labels, not quantities
    return schema


_KEPT = ("type", "enum", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "pattern", "description")


def _inlined(node: Schema, definitions: dict[str, Schema]) -> Schema:
    if "$ref" in node:
        below = _inlined(definitions[node["$ref"].rpartition("/")[2]], definitions)
        return below | ({"description": node["description"]} if "description" in node else {})
    result = {key: node[key] for key in _KEPT if key in node}
    if "const" in node:
        result["enum"] = [node["const"]]
    if "anyOf" in node:
        result["anyOf"] = [_inlined(one, definitions) for one in node["anyOf"]]
    if "properties" in node:
        result["properties"] = {name: _inlined(below, definitions) for name, below in node["properties"].items()}
        result["additionalProperties"] = False
    elif isinstance(node.get("additionalProperties"), dict):
        result["additionalProperties"] = _quantities(_inlined(node["additionalProperties"], definitions))
    if "items" in node:
        result["items"] = _inlined(node["items"], definitions)
    return result


def _quantities(schema: Schema) -> Schema:
    """Permit whole numbers as a map's values if it holds texts, because users write quantities so."""
    return {"type": ["string", "integer"]} if schema == {"type": "string"} else schema


# The chart's own values


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _list_of(kind: str) -> Schema:
    return {"type": "array", "items": {"type": kind}}


def _one_of(*choices: Any) -> Schema:
    return {"enum": list(choices)}


def _at_least(least: int) -> Schema:
    return {"type": "integer", "minimum": least}


_TEXT: Schema = {"type": "string"}
_SWITCH: Schema = {"type": "boolean"}
_TEXTS_BY_NAME: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_ANY_OBJECT: Schema = {"type": "object"}
_OBJECTS = _list_of("object")
_DURATION: Schema = {"type": "string", "pattern": "^([0-9]+(ms|s|m|h))+$"}
_QUANTITY = r"^[0-9]+(\.[0-9]+)?([numkMGTPE]|[KMGTPE]i|e[0-9]+)?$"
_QUANTITIES: Schema = {"type": "object", "additionalProperties": {"type": ["string", "number"], "pattern": _QUANTITY}}
_ACCOUNT_NAME: Schema = {"type": "string", "pattern": "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"}
_OBJECT_NAME: Schema = {"type": "string", "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"}

_VALUES = _object(
    config=configuration_schema(),
    replicas=_at_least(1),
    image=_object(
        registry=_TEXT,
        repository={"type": "string", "minLength": 1},
        tag={"type": "string", "pattern": "^([A-Za-z0-9_][A-Za-z0-9_.-]*)?$"},
        digest={"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
        pullPolicy=_one_of("Always", "IfNotPresent", "Never"),
    ),
    imagePullSecrets=_OBJECTS,
    nameOverride=_OBJECT_NAME,
    fullnameOverride=_OBJECT_NAME,
    crds=_object(install=_SWITCH, keep=_SWITCH),
    priorityClasses=_object(install=_SWITCH),
    admissionPolicies=_object(install=_SWITCH),
    webhook=_object(
        mode={"enum": ["Auto", "On", "Off"]},
        port={"type": "integer", "minimum": 1, "maximum": 65_535},
        certificate={"enum": ["SelfSigned", "CertManager", "Provided"]},
        certificateDays=_at_least(1),
        secretName=_TEXT,
        caBundle=_TEXT,
        issuerRef=_ANY_OBJECT,
    ),
    extender=_object(
        enabled=_SWITCH,
        replicas=_at_least(1),
        port={"type": "integer", "minimum": 1, "maximum": 65_535},
        clusterIP={"type": "string", "pattern": "^(None|[0-9a-f.:]*)$"},
        resources=_object(requests=_QUANTITIES, limits=_QUANTITIES, claims=_OBJECTS),
        nodeSelector=_TEXTS_BY_NAME,
        tolerations=_OBJECTS,
        **{"from": _OBJECTS},
    ),
    dashboard=_object(
        enabled=_SWITCH,
        port={"type": "integer", "minimum": 1, "maximum": 65_535},
        certificate={"enum": ["SelfSigned", "CertManager", "Provided"]},
        certificateDays=_at_least(1),
        secretName=_TEXT,
        issuerRef=_ANY_OBJECT,
        hosts={"type": "array", "items": {"type": "string", "minLength": 1}},
        resources=_object(requests=_QUANTITIES, limits=_QUANTITIES, claims=_OBJECTS),
        nodeSelector=_TEXTS_BY_NAME,
        tolerations=_OBJECTS,
        **{"from": _OBJECTS},
    ),
    tenantPolicies=_object(install=_SWITCH),
    operatorPolicies=_object(install=_SWITCH),
    rbac=_object(create=_SWITCH, aggregateView=_SWITCH, aggregateEdit=_SWITCH, queueAdmins=_SWITCH, readHeartbeat=_SWITCH),
    serviceAccount=_object(create=_SWITCH, name=_ACCOUNT_NAME, annotations=_TEXTS_BY_NAME),
    resources=_object(requests=_QUANTITIES, limits=_QUANTITIES, claims=_OBJECTS),
    priorityClassName=_TEXT,
    nodeSelector=_TEXTS_BY_NAME,
    tolerations=_OBJECTS,
    affinity=_ANY_OBJECT,
    podAntiAffinity=_one_of("Off", "Preferred", "Required"),
    topologySpreadConstraints=_OBJECTS,
    podAnnotations=_TEXTS_BY_NAME,
    podLabels=_TEXTS_BY_NAME,
    extraEnv=_OBJECTS,
    extraVolumes=_OBJECTS,
    extraVolumeMounts=_OBJECTS,
    terminationGracePeriodSeconds=_at_least(1),
    podDisruptionBudget=_object(enabled=_SWITCH, maxUnavailable={"type": ["integer", "string"]}),
    serviceMonitor=_object(enabled=_SWITCH, interval=_DURATION, scrapeTimeout=_DURATION, labels=_TEXTS_BY_NAME),
    prometheusRule=_object(enabled=_SWITCH, labels=_TEXTS_BY_NAME, runbooks=_TEXT),
    grafanaDashboards=_object(enabled=_SWITCH, labels=_TEXTS_BY_NAME, annotations=_TEXTS_BY_NAME),
    networkPolicy=_object(
        enabled=_SWITCH,
        metricsFrom=_OBJECTS,
        restrictEgress=_SWITCH,
        apiServer=_OBJECTS,
        apiServerPorts={"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 1, "maximum": 65535}},
    ),
    flowSchema=_object(
        enabled=_SWITCH,
        priorityLevel={"type": "string", "minLength": 1},
        matchingPrecedence={"type": "integer", "minimum": 1, "maximum": 10000},
    ),
    cleanup=_object(enabled=_SWITCH, timeoutSeconds=_at_least(10)),
    extraObjects=_OBJECTS,
) | {
    # Helm adds `global` if the chart is a dependency of another one.
    "patternProperties": {"^global$": {"type": "object"}}
}
