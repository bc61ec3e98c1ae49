"""The operator's process holds no certificates of public authorities that it never asks, and small buffers for its many connections."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys

import pytest

from fairburst.cli.lean import BUFFER_BYTES, without_public_authorities

PROGRAM = """
from fairburst.cli.lean import without_public_authorities
with without_public_authorities():
    from fairburst.kube import {module}
import gc, ssl
print(sum(one.cert_store_stats()["x509"] for one in gc.get_objects() if isinstance(one, ssl.SSLContext)))
import aiohttp.connector
print(aiohttp.connector._SSL_CONTEXT_VERIFIED.cert_store_stats()["x509"])
print(ssl.create_default_context().cert_store_stats()["x509"])
"""


@pytest.mark.parametrize("module", ["process", "extender_process"])
def test_the_process_loads_none_with_its_modules_and_can_load_them_later(module: str) -> None:
    known = ssl.create_default_context().cert_store_stats()["x509"]
    if not known:
        pytest.skip("this machine has no certificates of public authorities")
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(module=module)], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["0", "0", str(known)]


def test_places_that_the_user_named_are_named_again_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/mine.pem")
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    with without_public_authorities():
        assert os.environ["SSL_CERT_FILE"] == os.devnull
    assert os.environ["SSL_CERT_FILE"] == "/mine.pem"
    assert "SSL_CERT_DIR" not in os.environ


def test_a_connection_of_the_process_holds_the_smaller_buffer() -> None:
    """In a process of its own: the setting holds for all connections of a process."""
    program = """
import asyncio, ssl
from asyncio.sslproto import SSLProtocol
from fairburst.cli.lean import with_small_buffers
with_small_buffers()
print(len(SSLProtocol(asyncio.new_event_loop(), asyncio.Protocol(), ssl.create_default_context(), None)._ssl_buffer))
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == [str(BUFFER_BYTES)]
