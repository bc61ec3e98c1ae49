"""What the operator serves: /metrics, the probes, and the admission webhook if it is enabled.

In production a thread of its own serves them: the API server waits two seconds for a webhook, a kubelet one second for a probe, and a round
may take longer.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator

from fairburst.config import Config
from fairburst.kube.admission.server import AdmissionServer, QueuesIn
from fairburst.kube.side_thread import Runner
from fairburst.telemetry.log import event
from fairburst.telemetry.metrics import Metrics
from fairburst.telemetry.web import Probe, WebServer

logger = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def serving(
    config: Config, metrics: Metrics, run: Runner, *, healthy: Probe, ready: Probe, queues: QueuesIn
) -> AsyncIterator[int]:  # fmt: skip
    """Serve inside the block; yield the port of metrics and probes. `run` says where; all three callables are called there.

    What these read may change meanwhile: they read single attributes, or queue objects under their store's lock.

    Raises CertificateError if the webhook is enabled and has no usable certificate.
    """
    web, webhook = WebServer(metrics.registry, healthy=healthy, ready=ready), AdmissionServer(config, metrics, queues)
    try:
        port = await run(web.start(config.metrics.host, config.metrics.port))
        if config.webhook.enabled:  # whether or not this process leads
            event(logger, logging.INFO, "webhook started", port=await run(webhook.start()))
        yield port
    finally:
        await run(webhook.stop())
        await run(web.stop())
