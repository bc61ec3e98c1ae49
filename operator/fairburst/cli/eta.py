"""`fairburst eta`: when a Job that waits will start, as an interval, from many forward runs of the simulator."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairburst.cli.arguments import Form, OutputForm, namespace_name
from fairburst.cli.cluster import SYSTEM_NAMESPACE, Cluster, Context, Kubeconfig, Namespace, OperatorConfig, SystemNamespace
from fairburst.cli.errors import WRONG_ARGUMENTS, CommandError
from fairburst.cli.output import is_data, print_value

if TYPE_CHECKING:
    from fairburst.forecast.intervals import Forecast
    from fairburst.kube.api.client import ApiClient
    from fairburst.kube.api.objects import Job
    from fairburst.kube.look import Look

HORIZON_SECONDS = 7 * 86_400.0
_NEVER = {
    "LargerThanNodes": (
        "no node of the pool could hold one of its pods, even if it were empty.\nMake its pods smaller, or add larger nodes."
    ),
    "ResourceNotOffered": (
        "no node of the pool offers {resource}, which its pods ask for.\nAdd nodes that do, or start their device plugin."
    ),
    "HostPortTaken": (
        "its pods ask for {resource}, and pods outside its queue have that on each node that could hold one.\n"
        "Leave hostPort out, use another port, or have those pods moved."
    ),
    "PodsWithoutRequests": (
        "the namespace's quota refuses its pods, because a container requests no cpu or no memory.\n"
        "Add requests, or a LimitRange with defaultRequest for both (type Container)."
    ),
}


def eta(
    job: Annotated[str, typer.Argument(metavar="JOB", help="A Job: NAMESPACE/NAME, or its name with -n.")],
    output: OutputForm = "table",
    runs: Annotated[int, typer.Option("--runs", min=5, max=1000, help="Forward runs; more take longer and are finer.")] = 40,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the drawn durations and arrivals.")] = 1,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: OperatorConfig = None,
    system_namespace: SystemNamespace = SYSTEM_NAMESPACE,
) -> None:
    """Forecast when a Job starts that waits: the time that half of the runs reach, and intervals of 50 % and 90 %."""
    within, _, name = job.removeprefix("job/").rpartition("/")
    namespace = namespace_name(within or None) or namespace
    if namespace is None:
        raise typer.BadParameter(f"expected the namespace of Job {name}, as {name} -n NAMESPACE, found none", param_hint="--namespace")
    cluster = Cluster(kubeconfig, context, config, system_namespace)
    found = cluster.ask(lambda client: ask(client, cluster, namespace, name, runs, seed))
    _print(found, output)


async def ask(client: ApiClient, cluster: Cluster, namespace: str, name: str, runs: int, seed: int) -> dict[str, Any]:
    """Return when the Job starts, as -o json prints it. Raises CommandError and ApiError."""
    from fairburst.forecast.from_cluster import ended_pods, learn, state_of  # noqa: PLC0415  keeps `fairburst --help` quick
    from fairburst.forecast.intervals import Calibration  # noqa: PLC0415
    from fairburst.forecast.samples import start_samples  # noqa: PLC0415
    from fairburst.kube.queues.spaces import namespace_of  # noqa: PLC0415
    from fairburst.kube.usage.host_ports import ports_text  # noqa: PLC0415
    from fairburst.kube.views.conditions import NOT_OFFERED, PORT_TAKEN  # noqa: PLC0415

    seen = await cluster.look(client)
    job = seen.view.controllers.job(namespace, name)
    if job is None:
        raise CommandError(f"expected Job {name} in namespace {namespace}, found none", WRONG_ARGUMENTS)
    if all(spec.name.partition("/")[0] != namespace for spec in seen.round.snapshot.queues):
        raise CommandError(f"expected a queue that governs namespace {namespace}, found none; fairburst does not hold its work")
    known = learn(seen, await ended_pods(client))
    state = state_of(seen, known)
    asked = f"{namespace}/{name}"
    present = next((one for one in state.jobs if one.name == asked), None)
    answer: dict[str, Any] = {"job": asked, "endedPods": known.ended_pods, "runs": runs}
    if present is None or present.has_started:
        return answer | {"state": "Ended" if present is None else "Started"}
    if missing := seen.lacking(seen.requests_of(job)):
        return answer | {"state": NOT_OFFERED, "resource": missing}
    taken = (demand.ports.taken.get(job.metadata.uid) for space, demand in seen.demands.items() if namespace_of(space) == namespace)
    if (found := next(filter(None, taken), None)) is not None:
        return answer | {"state": PORT_TAKEN, "resource": ports_text(found[1])}
    if hindrance := _hindrance(seen, job):
        return answer | {"state": hindrance}
    waits = start_samples(state, [asked], known.durations, known.arrivals, seed=seed, runs=runs, horizon=HORIZON_SECONDS)[asked]
    return answer | {"state": "Waiting"} | _as_data(Calibration().forecast(waits))


def _hindrance(seen: Look, job: Job) -> str:
    """Return why the Job's pods can never start as they are, as its Event says it; empty if they can."""
    from fairburst.forecast.from_cluster import fits_a_node  # noqa: PLC0415
    from fairburst.kube.enforce.enforceability import PODS_WITHOUT_REQUESTS  # noqa: PLC0415
    from fairburst.kube.usage.effective_requests import template_lacks_requests  # noqa: PLC0415
    from fairburst.kube.views.conditions import LARGER_THAN_NODES  # noqa: PLC0415

    if not fits_a_node(seen, job):
        return LARGER_THAN_NODES
    statuses = (one.get("status") or {} for key, one in seen.queues.items() if key[1] == job.metadata.namespace)
    refused = any(one.get("reason") == PODS_WITHOUT_REQUESTS for status in statuses for one in status.get("conditions") or ())
    return PODS_WITHOUT_REQUESTS if refused and template_lacks_requests(job.spec.template.spec, seen.round.snapshot.resources) else ""


def _as_data(forecast: Forecast) -> dict[str, Any]:
    def plain(seconds: float) -> float | None:
        return round(seconds, 1) if math.isfinite(seconds) else None

    intervals = {str(round(level * 100)): [plain(low), plain(high)] for level, (low, high) in forecast.intervals.items()}
    return {"medianSeconds": plain(forecast.median), "intervalsSeconds": intervals}


def _print(found: dict[str, Any], form: Form) -> None:
    if is_data(form):
        print_value(found, form)
        return
    job = found["job"]
    if (why := _NEVER.get(found["state"])) is not None:
        lead = "waits for a port, and how long is not known" if found["state"] == "HostPortTaken" else "never starts as it is"
        sys.stdout.write(f"Job {job} {lead}: {why.format(resource=found.get('resource', ''))}\n")
        return
    if found["state"] != "Waiting":
        sys.stdout.write(f"Job {job} has {found['state'].lower()}.\n")
        return
    write = sys.stdout.write
    about = "" if found["medianSeconds"] is None else "about "
    write(f"Job {job} waits. It starts in {about}{_words(found['medianSeconds'])}.\n")
    for level, (low, high) in found["intervalsSeconds"].items():
        write(f"  {level} %: in {_words(low)}{'' if low is None else f' to {_words(high)}'}\n")
    write(f"From {found['runs']} forward runs with the durations of {found['endedPods']} ended pods.\n")
    if found["endedPods"] == 0:
        write("No pod of a queue has ended, so all durations are guesses.\n")


def _words(seconds: float | None) -> str:
    from fairburst.kube.views.forecast_view import duration  # noqa: PLC0415  keeps `fairburst --help` quick

    return "more than a week" if seconds is None else duration(seconds)
