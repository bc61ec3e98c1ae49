"""The operator as a process, tested without a cluster."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from e2e.harness import OperatorError, OperatorProcess, free_port, merged


@pytest.fixture
def nowhere(tmp_path):
    """A cluster whose API server does not answer."""
    kubeconfig = tmp_path / "kubeconfig"
    user = {"clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}], "users": [{"name": "u", "user": {"token": "t"}}]}
    context = {"contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x"}
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config"} | user | context))
    return SimpleNamespace(kubeconfig=kubeconfig)


def test_overrides_replace_single_keys_of_a_group():
    assert merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"c": 4}, "e": {"f": 5}}) == {"a": {"b": 1, "c": 4}, "d": 3, "e": {"f": 5}}


def test_free_port_can_be_listened_on():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", free_port()))


def test_wrong_configuration_is_named_before_anything_is_applied(nowhere):
    with pytest.raises(OperatorError, match=r"`fairburst manifests .*ended with [12]:(.|\n)*metrix"):
        OperatorProcess(nowhere, {"metrix": {}}, subject_user=None)


def test_operator_that_dies_is_reported_with_its_last_lines(nowhere):
    with pytest.raises(OperatorError, match=r"operator broken ended with status [1-9]\d* before it was ready(.|\n)*metrix"):
        OperatorProcess(nowhere, {"metrix": {}}, "broken", subject_user=None, install=False)


@pytest.fixture
def refusing(nowhere):
    """A cluster whose API server answers, and refuses everything."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    nowhere.kubeconfig.write_text(nowhere.kubeconfig.read_text().replace("127.0.0.1:1", f"127.0.0.1:{server.server_port}"))
    yield nowhere
    server.shutdown()
    server.server_close()


def test_operator_without_a_cluster_ends_at_once_and_says_so_in_one_line(nowhere):
    with pytest.raises(OperatorError, match=r"operator lost ended with status 3 before it was ready. Last lines:\n.*cannot run.*$"):
        OperatorProcess(nowhere, {}, "lost", subject_user=None, install=False)


def test_operator_that_never_gets_ready_is_killed_and_reported(refusing):
    before = children()
    with pytest.raises(OperatorError, match=r"operator mute was not ready after 10 s. Last lines:\n.+"):
        OperatorProcess(refusing, {}, "mute", subject_user=None, install=False, ready_seconds=10)
    assert children() <= before


def children() -> set[str]:
    listed = subprocess.run(["ps", "-o", "pid=,stat=,args=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=False)
    return {line for line in listed.stdout.splitlines() if "fairburst run" in line}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_signals_end_a_program_through_its_cleaning_up_even_if_repeated(number):
    program = """
import sys, time
from e2e.harness import end_in_good_order
end_in_good_order()
try:
    print("ready", flush=True)
    time.sleep(30)
finally:
    print("cleaning", flush=True)
    time.sleep(0.5)
    print("clean", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.readline() == "cleaning\n"
        time.sleep(0.1)
        process.send_signal(number)
        assert process.stdout.read() == "clean\n"
        assert process.wait(10) == 128 + number


def test_a_signal_in_the_middle_of_a_task_ends_a_program_without_a_traceback():
    """asyncio would print the SystemExit of the interrupted task, with a traceback, as an exception that was never retrieved."""
    program = """
import asyncio, os, signal
from e2e.harness import end_in_good_order
end_in_good_order()

async def interrupted():
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(30)

async def main():
    async with asyncio.TaskGroup() as group:
        group.create_task(interrupted())
        await asyncio.sleep(30)

asyncio.run(main())
"""
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=20, check=False)
    assert (ended.returncode, ended.stdout) == (128 + signal.SIGINT, "")
