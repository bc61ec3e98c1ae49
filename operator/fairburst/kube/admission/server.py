"""The admission webhook's server: answers AdmissionReviews over TLS from memory. Every replica serves it, leader or not.

Certificates are files, as in a mounted Secret, and are reloaded when they change. Every minute the server connects to itself as the API
server would, so that a bad certificate is logged and counted before pods are affected. An answer never waits for anything, so the API
server's time-out of 2 s is left to the network. Failures are answered with an HTTP error, and the failure policy decides.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from fairburst.config import Config
from fairburst.kube.admission.mutation import (
    Object,
    Patch,
    another_pools,
    asked_queue,
    first_template,
    governing,
    held_patch,
    job_patch,
    pod_patch,
)
from fairburst.kube.api.served_certificate import CERTIFICATE, RELOAD_SECONDS, ServedCertificate
from fairburst.kube.queues.queue_set import ObjectKey
from fairburst.telemetry.log import event
from fairburst.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

PATH = "/mutate"
AUTHORITY = "ca.crt"
SELF_CHECK_SECONDS = 60.0
END_SECONDS = 3.0  # for requests under way: the API server waits 2 s at most
MOST_BYTES = 8 * 1024**2  # a review holds an object of at most 3 MiB, and its previous state in an update
QueuesIn = Callable[[str], Mapping[ObjectKey, Object] | None]


class AdmissionServer:
    """Serves until stopped. `queues` returns the queue objects in a namespace, or None until all are known: an incomplete list gives wrong
    priorities.
    """

    def __init__(self, config: Config, metrics: Metrics, queues: QueuesIn) -> None:
        self._config = config
        self._metrics = metrics
        self._queues = queues
        self._folder = Path(config.webhook.certificates)
        self.certificate = ServedCertificate(self._folder)
        self._port = 0
        self.problem: str | None = None
        self._runner: web.AppRunner | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> int:
        """Start listening; return the actual port. Raises CertificateError without a usable certificate."""
        self.certificate.load()
        app = web.Application(client_max_size=MOST_BYTES)
        app.router.add_post(PATH, self._mutate)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=END_SECONDS)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._config.webhook.host, self._config.webhook.port, ssl_context=self.certificate.context)
        await site.start()
        self._port = int(self._runner.addresses[0][1])
        self._tasks = [asyncio.create_task(self.certificate.keep_reloading()), asyncio.create_task(self._keep_checking())]
        return self._port

    async def stop(self) -> None:
        """Stop listening. Requests that have started are finished."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()

    # Requests

    async def _mutate(self, request: web.Request) -> web.Response:
        started = time.perf_counter()
        try:
            review = msgspec.json.decode(await request.read())["request"]
            patch = self.patch_of(review)
        except (msgspec.MsgspecError, LookupError, TypeError, ValueError) as error:
            event(logger, logging.WARNING, "review not understood", problem=repr(error))
            self._metrics.admission_reviews.labels("error").inc()
            raise web.HTTPBadRequest(text=repr(error)) from error
        if patch is None:
            self._metrics.admission_reviews.labels("not ready").inc()
            raise web.HTTPServiceUnavailable(text="the queues are not known yet")
        self._metrics.admission_reviews.labels("patched" if patch else "left").inc()
        self._metrics.admission_seconds.observe(time.perf_counter() - started)
        return web.Response(body=msgspec.json.encode(_answer(review["uid"], patch)), content_type="application/json")

    def patch_of(self, review: Object) -> Patch | None:
        """Return the patch for one request, or None while the queues are not known."""
        namespace, pool = review["namespace"], self._config.pool.name
        queues = self._queues(namespace)
        if queues is None:
            return None
        body = review["object"]
        match review["resource"]["resource"], review["operation"]:
            case "pods", "CREATE" if another_pools(queues, namespace, pool):
                return []
            case "pods", "CREATE":
                return pod_patch(body, asked_queue(queues, body, namespace, pool), self._config)
            case "jobs", "CREATE" | "UPDATE":
                asked = asked_queue(queues, first_template(body), namespace, pool)
                return job_patch(body, review.get("oldObject"), governing(queues, namespace, pool), self._config, asked)
            case "jobsets", "CREATE":
                return held_patch(body, asked_queue(queues, first_template(body), namespace, pool))
            case _:  # a kind that the webhook is not registered for
                return []

    # Certificates

    async def _keep_checking(self) -> None:
        while True:
            problem = await self.self_check()
            self._metrics.admission_certificate_valid.set(problem is None)
            if problem != self.problem:
                level = logging.INFO if problem is None else logging.ERROR
                event(logger, level, "certificate checked", folder=str(self._folder), problem=problem or "none")
            self.problem = problem
            await asyncio.sleep(SELF_CHECK_SECONDS)

    async def self_check(self) -> str | None:
        """Return the API server's objection to the served certificate, or None. Without ca.crt only the expiry is checked."""
        try:
            authority = self._folder / AUTHORITY
            context = ssl.create_default_context(cafile=str(authority if authority.exists() else self._folder / CERTIFICATE))
            context.verify_flags = ssl.VERIFY_X509_PARTIAL_CHAIN  # as strict as the API server, which is less strict than Python's default
            context.check_hostname = bool(self._config.webhook.server_name)
            called = self._config.webhook.server_name or "localhost"
            async with asyncio.timeout(RELOAD_SECONDS):  # not wait_for, which loses a cancellation that arrives with the result
                _, writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=context, server_hostname=called)
        except (OSError, TimeoutError) as error:
            return str(error) or type(error).__name__
        writer.transport.abort()  # a clean close waits for the other side, which waits for a request
        return None


def _answer(uid: str, patch: Patch) -> dict[str, Any]:
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if patch:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(patch)).decode()}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
