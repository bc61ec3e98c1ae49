"""Errors of the Kubernetes API, translated once from aiohttp and from the API's Status objects.

ApiError                    any answer of 400 or above, or no answer
    Unauthorized    401     credentials refused, also after a refresh
    Forbidden       403     RBAC, quota or an admission policy; the message says which
    NotFound        404
    Conflict        409     another client wrote first; read again and retry
        AlreadyExists
        FailedTest  422     another client wrote first, so that a `test` of a JSON patch failed
    Gone            410     resourceVersion or continue token too old: list again
    Invalid         422     the object violates its schema
    TooManyRequests 429     `retry_after` in seconds
    Unavailable     0, 502, 503, 504    refused, reset, timed out, or a server that is starting or stopping
    NotLeading      0       a write that was not sent: another replica may hold the lease
    BackedOff       0       a write that was not sent: the last attempts failed (`retry.py`)
CredentialsError            no usable kubeconfig or service account
"""

from __future__ import annotations

from typing import ClassVar

TOO_LARGE = "etcdserver: request is too large"  # answered with 500, which lasts as long as the object is so large
DOES_NOT_APPLY = "the server rejected our request due to an error in our request"  # other refusals by 422 name a field


class CredentialsError(Exception):
    """No cluster access is configured, or the configuration cannot be read."""


class ApiError(Exception):
    """An answer other than success. status: the HTTP code, or 0 without an answer."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status or 'no answer'} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def transient(self) -> bool:
        """Whether the same request may succeed later without any other change."""
        return self.status in {0, 429} or (self.status >= 500 and TOO_LARGE not in self.message)

    @property
    def unknown_user(self) -> bool:
        """Whether the API server does not know who asks. It may admit such requests as an anonymous user's, and then forbid them."""
        return self.status == 401 or (self.status == 403 and "system:anonymous" in self.message)

    @property
    def by_server(self) -> bool:
        """Whether the API server failed, or did not answer. A request that was not sent tells nothing of it."""
        return self.transient and not isinstance(self, TooManyRequests | NotLeading | BackedOff)

    @property
    def concerns_all(self) -> bool:
        """Whether other requests will fail for the same reason. A refusal concerns its object, whose owner may have caused it."""
        return self.by_server or self.unknown_user


class Unauthorized(ApiError):  # noqa: N818 (the API's own reason words are the names)
    """401."""


class Forbidden(ApiError):  # noqa: N818
    """403."""


class NotFound(ApiError):  # noqa: N818
    """404."""


class Conflict(ApiError):  # noqa: N818
    """409."""


class AlreadyExists(Conflict):
    """409 of a create."""


class FailedTest(Conflict):
    """422 of a JSON patch that does not apply to the present object."""


class Gone(ApiError):  # noqa: N818
    """410."""


class Invalid(ApiError):  # noqa: N818
    """422."""


class TooManyRequests(ApiError):  # noqa: N818
    """429. retry_after: the server's Retry-After in seconds, 1 without one."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float = 1.0) -> None:
        super().__init__(status, reason, message)
        self.retry_after = retry_after


class Unavailable(ApiError):  # noqa: N818
    """No answer, or an answer from a server that is not ready."""


class NotLeading(ApiError):  # noqa: N818
    """A write that was not sent because this process's right to write has ended."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "NotLeading", message)


class BackedOff(ApiError):  # noqa: N818
    """A write that was not sent because it is too early for another attempt."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "BackedOff", message)


class _Kinds:
    by_status: ClassVar[dict[int, type[ApiError]]] = {
        401: Unauthorized,
        403: Forbidden,
        404: NotFound,
        409: Conflict,
        410: Gone,
        422: Invalid,
        502: Unavailable,
        503: Unavailable,
        504: Unavailable,
    }


def api_error(status: int, reason: str, message: str, retry_after: float | None = None) -> ApiError:
    """Return an error of the status code's subclass."""
    if status == 429:
        return TooManyRequests(status, reason, message, 1.0 if retry_after is None else retry_after)
    if status == 409 and reason == "AlreadyExists":
        return AlreadyExists(status, reason, message)
    if status == 422 and message.endswith(DOES_NOT_APPLY):
        return FailedTest(status, reason, message)
    return _Kinds.by_status.get(status, ApiError)(status, reason, message)
