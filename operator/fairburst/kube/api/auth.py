"""The API server's address and fairburst's credentials, from a kubeconfig or from a pod's service account.

Tokens are read through a function because they change: the kubelet rotates projected service account tokens hourly, and exec plug-ins and
OIDC issue short-lived ones.
"""

from __future__ import annotations

import logging
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fairburst.kube.api.errors import CredentialsError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_KUBECONFIG = Path("~/.kube/config")
TOKEN_MAX_AGE_SECONDS = 60.0
CONTEXTS_NAMED = 5

ReadToken = Callable[[bool], str | None]


@dataclass
class Credentials:
    """An endpoint and its credentials. `read_token(force)` may block (file, plug-in); `force` discards cached credentials.

    in_pod: the credentials are those of this pod's service account.
    """

    server: str
    read_token: ReadToken = field(default=lambda force: None)  # noqa: ARG005
    ca_path: str | None = None
    certificate_path: str | None = None
    key_path: str | None = None
    tls_server_name: str | None = None
    proxy: str | None = None
    insecure: bool = False
    in_pod: bool = False

    def with_token(self, token: str) -> Credentials:
        """Return the same endpoint with the token of another user, and with no other credentials."""
        return replace(self, read_token=lambda force: token, certificate_path=None, key_path=None, in_pod=False)  # noqa: ARG005

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS settings, or None for plain HTTP, which only `kubectl proxy` and tests use. Raises CredentialsError."""
        if not self.server.startswith("https"):
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_path)
            if self.certificate_path:
                context.load_cert_chain(self.certificate_path, self.key_path)
        except OSError as error:
            raise CredentialsError(
                f"expected certificates and keys in PEM for {self.server}, found: {error}; check the kubeconfig"
            ) from error
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


class TokenCache:
    """The current token, which is stale after `max_age_seconds`. Not thread-safe: each thread needs its own cache."""

    def __init__(self, read: ReadToken) -> None:
        self._read = read
        self._token: str | None = None
        self._read_at = float("-inf")

    def stale(self, max_age_seconds: float = TOKEN_MAX_AGE_SECONDS) -> bool:
        """Return whether `refresh` should be called before the next request."""
        return time.monotonic() - self._read_at > max_age_seconds

    def refresh(self, force: bool = False) -> None:
        """Read the token now. May block."""
        self._token = self._read(force)
        self._read_at = time.monotonic()

    @property
    def token(self) -> str | None:
        """The bearer token, or None if client certificates authenticate the requests."""
        return self._token


def load_credentials(kubeconfig: str | None, context: str | None = None) -> Credentials:
    """Return the credentials of a kubeconfig file. May block.

    Without a file they come from those in $KUBECONFIG, else from the pod's service account, else from ~/.kube/config.

    Raises
    ------
    CredentialsError : the file or the service account is missing or unusable.
    """
    chosen = kubeconfig or os.environ.get("KUBECONFIG")
    if not chosen and not (SERVICE_ACCOUNT / "token").exists() and DEFAULT_KUBECONFIG.expanduser().exists():
        chosen = str(DEFAULT_KUBECONFIG)
    if chosen:
        return from_kubeconfig(chosen, context)
    if not os.environ.get("KUBERNETES_SERVICE_HOST"):  # no pod: a person's machine, or a pod that hides its cluster
        raise CredentialsError(f"expected a kubeconfig in --kubeconfig, $KUBECONFIG or {DEFAULT_KUBECONFIG}, found none")
    return from_service_account()


def from_service_account(directory: Path | None = None) -> Credentials:
    """Return the credentials that the kubelet projects into the pod."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    directory = SERVICE_ACCOUNT if directory is None else directory
    token_path, ca_path = directory / "token", directory / "ca.crt"
    if not host or not port or not token_path.exists():
        raise CredentialsError(
            f"expected to run in a pod with a service account, found KUBERNETES_SERVICE_HOST={host!r} and "
            f"{token_path} {'present' if token_path.exists() else 'missing'}; give a kubeconfig instead"
        )
    host = f"[{host}]" if ":" in host else host

    def read_token(force: bool) -> str:  # noqa: ARG001 (files are not cached)
        return token_path.read_text().strip()

    return Credentials(f"https://{host}:{port}", read_token, ca_path=str(ca_path) if ca_path.exists() else None, in_pod=True)


def from_kubeconfig(path: str, context: str | None = None) -> Credentials:
    """Return the credentials that `kubectl` would use, including exec plug-ins and OIDC. `path` may list several files, as $PATH does."""
    path = os.pathsep.join(os.path.expanduser(each) for each in path.split(os.pathsep))
    try:
        from kubernetes import client as kubernetes_client  # noqa: PLC0415 (36 MB, and not needed in a pod)
        from kubernetes import config as kubernetes_config  # noqa: PLC0415
    except ImportError as error:
        needed = "expected the package kubernetes, which reads kubeconfig files, found none"
        raise CredentialsError(f"{needed}; install it: pip install 'fairburst[cluster]'") from error

    def load() -> Any:
        configuration = kubernetes_client.Configuration()
        try:
            kubernetes_config.load_kube_config(  # type: ignore[no-untyped-call]
                path, context=context, client_configuration=configuration, persist_config=False
            )
        except Exception as error:  # the library passes on errors of YAML and of its own look-ups
            where = f"context {context!r}" if context else "the current context"
            raise CredentialsError(f"expected a kubeconfig with {where} at {path}, {_found_instead(path, context, error)}") from error
        return configuration

    with _plug_in_failures() as failures:
        current = load()
    if failures and not current.api_key and not current.cert_file:
        what = "install it, log in with it, or choose another --context"
        raise CredentialsError(f"expected credentials from the exec plug-in that {path} names, found: {failures[-1]}; {what}")

    def read_token(force: bool) -> str | None:
        nonlocal current
        if force:
            current = load()
        elif current.refresh_api_key_hook is not None:
            current.refresh_api_key_hook(current)
        bearer = current.api_key.get("BearerToken") or current.api_key.get("authorization")
        return str(bearer).removeprefix("Bearer ") if bearer else None

    return Credentials(
        server=str(current.host).rstrip("/"),
        read_token=read_token,
        ca_path=current.ssl_ca_cert,
        certificate_path=current.cert_file,
        key_path=current.key_file,
        tls_server_name=getattr(current, "tls_server_name", None),
        proxy=getattr(current, "proxy", None),
        insecure=not current.verify_ssl,
    )


@contextmanager
def _plug_in_failures() -> Iterator[list[str]]:
    """Collect the failures of exec plug-ins, which the library logs before it goes on without credentials, instead of logging them."""
    found: list[str] = []
    thread = threading.get_ident()

    def keep_from_the_log(record: logging.LogRecord) -> bool:
        if record.module != "kube_config" or record.thread != thread:
            return True
        said = record.getMessage()
        # On a terminal the plug-in writes to it, and the library fails on the text that it did not get.
        found.append("it failed, and its output is above" if "'NoneType'" in said else said)
        return False

    root = logging.getLogger()
    root.addFilter(keep_from_the_log)
    try:
        yield found
    finally:
        root.removeFilter(keep_from_the_log)


def _found_instead(path: str, context: str | None, error: Exception) -> str:
    """Return what these files have instead of the context, and what to do."""
    if other := _other_content(path):
        return f"found {other}; choose another file with --kubeconfig or $KUBECONFIG"
    current, known = _contexts(path)
    asked = context or current
    if known and asked not in known:
        more = ", ..." if len(known) > CONTEXTS_NAMED else ""
        which = f"context {asked!r}" if asked else "current-context"
        return f"found no {which}; choose one with --context: {', '.join(known[:CONTEXTS_NAMED])}{more}"
    return f"found: {error}; correct the kubeconfig, or choose another {'--context' if known else 'file'}"


def _contexts(path: str) -> tuple[str, list[str]]:
    """Return the current context of these kubeconfig files, empty without one, and the names of all contexts."""
    import yaml  # noqa: PLC0415  an error has time

    current, known = "", []
    for each in path.split(os.pathsep):
        try:
            content = yaml.safe_load(Path(each).read_text(encoding="utf-8"))
        except OSError:
            continue
        current = current or str(content.get("current-context") or "")
        known += [str(one["name"]) for one in content.get("contexts") or [] if isinstance(one, dict) and one.get("name")]
    return current, known


def _other_content(path: str) -> str:
    """Return the content of the first of these files that is no kubeconfig; empty if each could be one."""
    return next((found for each in path.split(os.pathsep) if (found := _other_content_of(Path(each)))), "")


def _other_content_of(path: Path) -> str:
    import yaml  # noqa: PLC0415  an error has time

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        return "no text"
    except OSError:
        return ""
    except Exception as error:  # for a wrong date or a deep nesting, the library passes on errors of Python
        return f"no YAML ({error})"
    if not isinstance(content, dict):
        return {type(None): "an empty file", list: "a list", str: "plain text"}.get(type(content), repr(content))
    if isinstance(kind := content.get("kind", "Config"), str) and kind != "Config":
        return f"a {kind}"
    parts = ("clusters", "contexts", "users")
    return next((f"{name}: {content[name]!r}" for name in parts if not isinstance(content.get(name) or [], list)), "")
