"""A certificate and its key as files, as in a mounted Secret. New connections use them as soon as they change."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

from fairburst.telemetry.log import event

logger = logging.getLogger(__name__)

CERTIFICATE, KEY = "tls.crt", "tls.key"
RELOAD_SECONDS = 5.0


class CertificateError(Exception):
    """A server cannot be started; the message says what was expected and where."""


class ServedCertificate:
    """The pair in `folder`, and the TLS settings that serve it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._loaded: tuple[bytes, bytes] | None = None

    def load(self) -> None:
        """Read the pair for the first time. Raises CertificateError."""
        try:
            self.reload()
        except OSError as error:
            raise CertificateError(f"{self.folder}: expected {CERTIFICATE} and {KEY}, a pair as PEM: {error}") from error

    def reload(self) -> None:
        """Use the files' certificate for new connections if it has changed. Raises OSError without a valid, matching pair."""
        pair = self.folder / CERTIFICATE, self.folder / KEY
        found = pair[0].read_bytes(), pair[1].read_bytes()
        if found != self._loaded:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(*pair)  # a failed load would spoil the served context
            self.context.load_cert_chain(*pair)
            self._loaded = found

    async def keep_reloading(self) -> None:
        """Reload every few seconds until cancelled. A pair that cannot be read is logged, and the former one is still served."""
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            try:
                self.reload()
            except OSError as error:
                event(logger, logging.ERROR, "certificate not readable", folder=str(self.folder), problem=str(error))
