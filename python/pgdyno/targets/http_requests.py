"""HTTP requests that distinguish temporary errors, missing files and refusals.

urllib takes proxies from the usual variables (`https_proxy`, `no_proxy`).
"""

import base64
import http.client
import ipaddress
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from pgdyno.errors import TargetError

HINT = "check the network and its proxy, or set PGDYNO_MAVEN_URL to a mirror that can be reached"

_LENGTH = re.compile(r"\d{1,18}", re.ASCII)
_TRANSIENT_STATUS = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True, slots=True)
class Patience:
    """The timeout and the number of attempts of a request."""

    timeout_s: float = 30.0
    attempts: int = 5
    """The limit of consecutive failures without a byte received."""
    backoff_s: float = 0.5
    """The pause after the first failure; doubles with each further one."""

    def pause(self, failures: int) -> None:
        """Wait after this number of consecutive failures."""
        time.sleep(self.backoff_s * 2 ** (failures - 1))


class NotThereError(TargetError):
    """The server does not have the file."""


class TransientError(Exception):
    """The request failed, but a retry may succeed."""


class RangeRefusedError(TransientError):
    """The server's file has fewer bytes than the offset at which the request wants to continue."""


def public_url(url: str) -> str:
    """Return `url` without user and password."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def is_allowed(url: str) -> bool:
    """Return True for https, and for http to this host: on the way to another, anyone could change the answer."""
    parts = urllib.parse.urlsplit(url)
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and _is_local(parts.hostname)))


def _is_local(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Rejects redirects to addresses that are not allowed for requests either."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if not is_allowed(newurl):
            fp.close()
            raise TargetError(
                f"cannot fetch {public_url(req.full_url)}: the server redirects to {public_url(newurl)}, which is not "
                "an https address",
                hint=HINT,
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch_text(url: str, patience: Patience, *, limit_bytes: int = 4 * 1024 * 1024) -> str:
    """Return the content of a small file. Raises NotThereError, TargetError."""
    failures = 0
    while True:
        try:
            with open_url(url, {}, patience) as response:
                content = response.read(limit_bytes)
                announced = announced_bytes(response)
            if announced is not None and len(content) < announced:
                raise TransientError(f"the connection ended after {len(content)} of {announced} bytes")
            return content.decode("utf-8", "replace")
        except TransientError as error:
            failures += 1
            if failures >= patience.attempts:
                raise TargetError(f"cannot fetch {public_url(url)}: {error}", hint=HINT) from error
            patience.pause(failures)


@contextmanager
def open_url(url: str, headers: Mapping[str, str], patience: Patience) -> Iterator[http.client.HTTPResponse]:
    """Yield the answer to a GET. Raises TransientError, NotThereError, TargetError, also for reads in the block."""
    try:
        with _open(_request(url, headers), patience) as response:
            yield response
    except urllib.error.HTTPError as error:
        with error:
            raise _status_error(url, error.code) from error
    except urllib.error.URLError as error:
        raise _connection_error(url, error) from error
    except (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
        raise TransientError(_reason(error)) from error


def _open(request: urllib.request.Request, patience: Patience) -> http.client.HTTPResponse:
    try:
        response: http.client.HTTPResponse = urllib.request.build_opener(_Redirects).open(
            request, timeout=patience.timeout_s
        )
    except ValueError as error:
        # a redirect to an invalid address, such as a host with an unclosed bracket or a label that is too long
        raise TargetError(f"cannot fetch {request.full_url}: {error}", hint=HINT) from error
    return response


def read_some(response: http.client.HTTPResponse, count: int) -> bytes:
    """Read up to `count` bytes, b"" at the end. Raises TransientError, which differs from the OSErrors of a writer."""
    try:
        return response.read(count)
    except (http.client.HTTPException, OSError) as error:
        raise TransientError(_reason(error)) from error


def announced_bytes(response: http.client.HTTPResponse) -> int | None:
    """Return the size that the answer announces, or None."""
    length = response.headers.get("Content-Length", "")
    return int(length) if _LENGTH.fullmatch(length) else None


def _request(url: str, headers: Mapping[str, str]) -> urllib.request.Request:
    if not is_allowed(url):
        raise TargetError(f"cannot fetch {public_url(url)}: not an https address", hint=HINT)
    parts = urllib.parse.urlsplit(url)
    request = urllib.request.Request(public_url(url), headers={"User-Agent": "pgdyno", **headers})  # noqa: S310
    if parts.username is not None:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        # unredirected, so that a redirect does not send the password to another host
        request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")
    return request


def _status_error(url: str, status: int) -> Exception:
    if status in _TRANSIENT_STATUS:
        return TransientError(f"the server answers with status {status}")
    if status == 416:
        return RangeRefusedError("the file changed on the server while it was fetched")
    if status in (404, 410):
        return NotThereError(f"cannot fetch {public_url(url)}: not found (status {status})", hint=HINT)
    return TargetError(f"cannot fetch {public_url(url)}: the server answers with status {status}", hint=HINT)


def _connection_error(url: str, error: urllib.error.URLError) -> Exception:
    if isinstance(error.reason, ssl.SSLCertVerificationError):
        return TargetError(
            f"cannot fetch {public_url(url)}: the server's certificate is not trusted ({error.reason.verify_message})",
            hint="set SSL_CERT_FILE to the certificates of your network",
        )
    return TransientError(_reason(error.reason if isinstance(error.reason, Exception) else error))


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection ended before the file did"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
