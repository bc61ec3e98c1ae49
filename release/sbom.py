"""The bill of materials of the image: the operator's packages as CycloneDX 1.6 JSON.

It depends on requirements.lock and pyproject.toml only, so the same files give the same bytes. `pip --require-hashes` installs exactly
the listed packages.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from release.lock import Pin, closure, project_needs, read

Component = dict[str, Any]


def bill_of_materials(lock: str, pyproject: str, version: str) -> dict[str, Any]:
    """Return the document for this version."""
    pins = closure(read(lock), project_needs(pyproject))
    reference = _purl("fairburst", version)
    direct = {name.lower().replace("_", "-") for name in project_needs(pyproject)}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, reference + ' '.join(pin.text for pin in pins))}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": reference,
                "name": "fairburst",
                "version": version,
                "purl": reference,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [_component(pin) for pin in pins],
        "dependencies": [
            {"ref": reference, "dependsOn": [_purl(pin.name, pin.version) for pin in pins if pin.name in direct]},
            *({"ref": _purl(pin.name, pin.version), "dependsOn": _needs(pin, pins)} for pin in pins),
        ],
    }


def to_json(document: dict[str, Any]) -> str:
    """Return the text of the file."""
    return json.dumps(document, indent=2) + "\n"


def _component(pin: Pin) -> Component:
    """Return a package. Its hashes are those of all its files in the index, because the installed one depends on the platform."""
    reference = _purl(pin.name, pin.version)
    files = [{"type": "distribution", "url": reference, "hashes": [{"alg": "SHA-256", "content": one}]} for one in pin.hashes]
    return {
        "type": "library",
        "bom-ref": reference,
        "name": pin.name,
        "version": pin.version,
        "purl": reference,
        "externalReferences": files,
    }


def _needs(pin: Pin, pins: list[Pin]) -> list[str]:
    return [_purl(other.name, other.version) for other in pins if pin.name in other.needed_by]


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"
