"""`python -m e2e.cluster build|up|down|status|kubeconfig`: a control plane from the command line."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from e2e.cluster.build import ensure_binaries, ensure_helm, print_progress
from e2e.cluster.cluster import Cluster
from e2e.cluster.errors import ClusterError, nearest
from e2e.cluster.state import cluster_names
from e2e.cluster.versions import DEFAULT_KUBERNETES, KUBERNETES_VERSIONS

DEFAULT_NAME = "default"


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parse(given)
    # A terminated or hung-up `up` must leave no process behind, like an interrupted one.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        return int(COMMANDS[options.command](options))
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; nothing was left running", file=sys.stderr)
        return 130


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options of one command. A wrong name ends with status 2 and names the nearest valid one."""
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster", description="A real Kubernetes control plane, without containers.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="|".join(COMMANDS))
    known = {name: commands.add_parser(name, help=about, description=about, allow_abbrev=False) for name, about in ABOUT.items()}
    for name in ("build", "up"):
        known[name].add_argument("--kubernetes", default=DEFAULT_KUBERNETES, metavar="|".join(KUBERNETES_VERSIONS))
    for name in ("up", "down", "status", "kubeconfig"):
        known[name].add_argument("--name", help=f"which of the clusters side by side (default: {DEFAULT_NAME})")
        known[name].add_argument("--kubeconfig", metavar="FILE", help="use that cluster instead; nothing is started or stopped")
    known["build"].add_argument("--helm", action="store_true", help="Helm too, which installs the chart")
    known["up"].add_argument("--nodes", type=_count, default=20, metavar="N", help="kwok nodes (default: 20)")
    known["up"].add_argument("--node-cpu", default="32", metavar="QUANTITY")
    known["up"].add_argument("--node-memory", default="64Gi", metavar="QUANTITY")
    known["up"].add_argument("--audit", action="store_true", help="log every request that writes")
    known["down"].add_argument("--all", action="store_true", help="every cluster of this user")

    if arguments and not arguments[0].startswith("-") and arguments[0] not in known:
        parser.error(f"no command {nearest(arguments[0], known)}")
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        own = known[options.command]
        own.error(f"no option {nearest(unknown[0].partition('=')[0], own._option_string_actions)}")
    return options


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number of nodes, 0 or more, found {text!r}")
    return int(text)


def _interrupt(number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt(signal.Signals(number).name)


def build(options: argparse.Namespace) -> int:
    binaries = ensure_binaries(options.kubernetes) | ({"helm": ensure_helm()} if options.helm else {})
    for name, path in binaries.items():
        print(f"{name}\t{path}")
    return 0


def up(options: argparse.Namespace) -> int:
    if options.kubeconfig:
        given = Cluster.existing(options.kubeconfig)
        given.kubectl("get", "--raw", "/readyz")
        print_progress(f"{given.server} answers; nothing was started")
        print(given.kubeconfig)
        return 0
    name = options.name or DEFAULT_NAME
    cluster = _running(name, options.kubernetes) or Cluster.start(
        name,
        kubernetes=options.kubernetes,
        nodes=options.nodes,
        node_cpu=options.node_cpu,
        node_memory=options.node_memory,
        audit=options.audit,
        keep=True,
    )
    print_progress(
        f"cluster {name} runs Kubernetes {cluster.kubernetes} at {cluster.server}; use it with\n  export KUBECONFIG={cluster.kubeconfig}"
    )
    return 0


def _running(name: str, kubernetes: str) -> Cluster | None:
    if name not in cluster_names():
        return None
    cluster = Cluster.attach(name)
    if not all(cluster.status().values()):
        return None
    if cluster.kubernetes != kubernetes:
        raise ClusterError(
            f"cluster {name!r} already runs Kubernetes {cluster.kubernetes}, wanted {kubernetes}: choose another --name, or `down` it first"
        )
    return cluster


def down(options: argparse.Namespace) -> int:
    if options.kubeconfig:
        raise ClusterError(f"{options.kubeconfig} is an external cluster: there is nothing of ours to stop")
    names = cluster_names() if options.all else [options.name or DEFAULT_NAME]
    for name in names:
        Cluster.attach(name).down()
        print_progress(f"cluster {name} is down")
    return 0


def status(options: argparse.Namespace) -> int:
    """Return exit status 1 if a process of a requested cluster does not run."""
    if options.kubeconfig:
        print(Cluster.existing(options.kubeconfig).kubectl("get", "nodes"), end="")
        return 0
    broken = 0
    for name in [options.name] if options.name else cluster_names():
        cluster = Cluster.attach(name)
        print(f"{name}\tKubernetes {cluster.kubernetes}\t{cluster.server}\t{cluster.kubeconfig}")
        for component, pid in cluster.status().items():
            print(f"  {component}\t{f'pid {pid}' if pid else f'NOT RUNNING, see {cluster.log(component)}'}")
            broken += pid is None
    if not options.name and not cluster_names():
        print("no cluster runs")
    return 1 if broken else 0


def kubeconfig(options: argparse.Namespace) -> int:
    found = Cluster.existing(options.kubeconfig) if options.kubeconfig else Cluster.attach(options.name or DEFAULT_NAME)
    print(found.kubeconfig)
    return 0


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "build": build,
    "up": up,
    "down": down,
    "status": status,
    "kubeconfig": kubeconfig,
}
ABOUT = {
    "build": "build the binaries that are not cached yet",
    "up": "start a cluster and leave it running",
    "down": "end a cluster and forget its data",
    "status": "which clusters run, and each process of theirs",
    "kubeconfig": "print the path of a cluster's kubeconfig",
}

if __name__ == "__main__":
    # Output may be a closed pipe (`… | head`), which needs no traceback.
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    sys.exit(code)
