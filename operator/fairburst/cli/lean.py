"""Import of the operator's modules without the certificates of public authorities."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

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
