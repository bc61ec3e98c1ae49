"""What keeps the memory of a process small that watches many collections: see each function."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

BUFFER_BYTES = 64 * 1024  # of a TLS connection; a record of TLS has at most 16 KiB
_PLACES = ("SSL_CERT_FILE", "SSL_CERT_DIR")  # where OpenSSL looks for them


@contextmanager
def without_public_authorities() -> Iterator[None]:
    """Load no certificates of public authorities inside the context.

    aiohttp loads them when it is imported, 1.7 MB, for requests that name no certificates. Ours do (`Credentials.ssl_context`), and so do
    Kopf's; a kubeconfig that names none still means the public authorities, which are loaded for it later.
    """
    before = {name: os.environ.get(name) for name in _PLACES}
    os.environ.update(dict.fromkeys(_PLACES, os.devnull))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def with_small_buffers() -> None:
    """Let each TLS connection that this process opens hold 64 KiB for what it reads, instead of asyncio's 256 KiB.

    A watch keeps a connection for itself, there are about fifteen, and their events are of a few KiB. Whatever is larger is read in parts.
    """
    from asyncio.sslproto import SSLProtocol  # noqa: PLC0415  keeps `fairburst --help` quick

    SSLProtocol.max_size = BUFFER_BYTES
