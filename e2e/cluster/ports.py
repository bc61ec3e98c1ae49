"""Free loopback ports for the processes of a cluster."""

from __future__ import annotations

import contextlib
import random
import socket

from e2e.cluster.components import Ports

# Below the range from which the kernel takes ports of outgoing connections, so that no connection occupies ours.
PORT_RANGE = range(20000, 32000)


def free_ports() -> Ports:
    """Return three ports without a listener. If another process takes one first, the bind fails and the caller tries others."""
    found: list[int] = []
    while len(found) < 3:
        port = random.choice(PORT_RANGE)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in found:
                found.append(port)
    return Ports(*found)
