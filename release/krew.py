"""`python -m release krew`: the plugin `kubectl fairburst` for krew: an archive with a launcher, and the manifest that names it.

krew installs archives, not Python packages. The launcher runs this version of `fairburst` with uv or pipx, or the installed one.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from pathlib import Path

import yaml

LAUNCHER = """\
#!/bin/sh
# kubectl fairburst {version}, installed by krew.
set -eu
package="fairburst[cluster,operator]=={version}"
if command -v fairburst > /dev/null && [ "$(fairburst --version)" = "fairburst {version}" ]; then exec fairburst "$@"; fi
if command -v uvx > /dev/null; then exec uvx --quiet --from "$package" fairburst "$@"; fi
if command -v pipx > /dev/null; then exec pipx run --spec "$package" fairburst "$@"; fi
echo "kubectl fairburst: expected uv, pipx or fairburst {version} on the PATH, found none; \\`pip install '$package'\\`" >&2
exit 1
"""
NAME = "kubectl-fairburst"


def archive(version: str, licence: str) -> bytes:
    """Return a .tar.gz with the launcher and the licence. The same version gives the same bytes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, text, mode in ((NAME, LAUNCHER.format(version=version), 0o755), ("LICENSE", licence, 0o644)):
            content = text.encode()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)


def manifest(version: str, uri: str, packed: bytes) -> str:
    """Return krew's manifest of the plugin, whose archive is published at `uri`."""
    operating_systems = {"matchExpressions": [{"key": "os", "operator": "In", "values": ["linux", "darwin"]}]}
    platform = {"selector": operating_systems, "uri": uri, "sha256": hashlib.sha256(packed).hexdigest(), "bin": NAME}
    return yaml.safe_dump(
        {
            "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
            "kind": "Plugin",
            "metadata": {"name": "fairburst"},
            "spec": {
                "version": f"v{version}",
                "shortDescription": "Ask fairburst why work waits, and what would help",
                "description": "Shows queues, bursts and what waits, explains why, and tries changes before they are made.\n",
                "caveats": "Needs uv or pipx, or `pip install fairburst`.\n",
                "platforms": [platform],
            },
        },
        sort_keys=False,
    )


def write(version: str, uri: str, licence: str, folder: Path) -> list[Path]:
    """Write the archive and the manifest, and return their paths. `uri`: the folder at which the archive will be published."""
    folder.mkdir(parents=True, exist_ok=True)
    packed = archive(version, licence)
    plugin, described = folder / f"{NAME}-{version}.tar.gz", folder / "fairburst.yaml"
    plugin.write_bytes(packed)
    described.write_text(manifest(version, f"{uri.rstrip('/')}/{plugin.name}", packed), encoding="utf-8")
    return [plugin, described]
