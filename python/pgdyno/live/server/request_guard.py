"""Access control: origin, token, user of the connection and size of the body, checked before a request is read.

There are three threats. A page of another site may send requests to a server on the loopback address, by its name or by
a name of its own that it resolves to that address (DNS rebinding): so the Host is checked, and any request that changes
something must come from a page of this server. Others on the network may send requests: so any other address requires a
token. Names and queries of databases are displayed: so pages may run only this server's scripts.
"""

import hmac
import ipaddress
import os
import secrets
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "pgdyno"
ENTER = "/enter"
"""The page that asks for the token; its static files need none."""
STATIC = "/static/"
FORM_TOKEN = "x-pgdyno-form"  # noqa: S105 - the name of a header
"""Header of requests that change something: the token that their page received."""
READS = frozenset(["GET", "HEAD"])
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    # with no-referrer, browsers would also hide the origin of this server's forms
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """ASGI middleware: refuses unauthorised requests, and adds headers to every answer."""

    def __init__(self, app: ASGIApp, *, names: Iterable[str], token: str | None, form_token: str) -> None:
        """Answers to the host `names` and to addresses; requires `token`, unless that is None.

        `form_token` is what pages receive for requests that change something.
        """
        self._app = app
        self._names = frozenset(name.lower() for name in names)
        self._token = token
        self._form_token = form_token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # lifespan events, not requests; this server has no websockets
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._is_ours(host):
            return _refusal(421, "This server does not answer to this host name: use the address that it printed.")
        path, method = scope["path"], scope["method"]
        entering = path == ENTER or path.startswith(STATIC)
        if not entering and not self._may_enter(headers):
            if method in READS and headers.get("sec-fetch-dest", "document") == "document":
                return RedirectResponse(ENTER, 303)
            return _refusal(401, "This address requires the token that pgdyno printed.")
        if method in READS:
            return None
        if not _same_origin(headers, host):
            return _refusal(403, "This request was not sent by a page of this server.")
        if path != ENTER and not token_fits(headers.get(FORM_TOKEN, ""), self._form_token):
            return _refusal(403, "The page is from another server process: reload it.")
        return None

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name.lower() in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _may_enter(self, headers: Headers) -> bool:
        return self._token is None or token_fits(_cookie(headers), self._token)


def token_fits(given: str, token: str) -> bool:
    """Compare `given` with the token in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def new_token() -> str:
    """Return a random token of 192 bits."""
    return secrets.token_urlsafe(24)


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


def _same_origin(headers: Headers, host: str) -> bool:
    origin = headers.get("origin")
    if origin is None or headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    try:
        sent_from = urlsplit(origin)
    except ValueError:
        return False
    return sent_from.netloc.lower() == host.lower() and sent_from.scheme in ("http", "https")


def _refusal(status: int, why: str) -> Response:
    return PlainTextResponse(f"{why}\n", status)


MOST_BYTES = 4_096


async def body_of(request: Request) -> bytes:
    """Return the body. Raises HTTPException if it exceeds the limit."""
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BYTES:
                raise HTTPException(413, "The request is too large.")
    except ClientDisconnect as error:
        raise HTTPException(400, "The request was incomplete.") from error
    return body


TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def may_ask(host: str, port: int) -> bool:
    """Return whether the client at `host` and `port` may change something: on this machine, only this user and root.

    A client of another machine has already presented the token.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    if not (mapped or address).is_loopback:
        return True
    return owner_of(port) in (os.geteuid(), 0)


def owner_of(port: int) -> int | None:
    """Return the user whose connected socket on a loopback address has this port; None if unknown."""
    for table in TABLES:
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            # sl local remote state queues timer retransmits uid
            _, local, _, state, _, _, _, uid, *_ = line.split()
            address, _, own = local.partition(":")
            if state == "01" and int(own, 16) == port and address in _LOOPBACK:
                return int(uid)
    return None


_LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
"""127.0.0.1, ::1 and the former as an IPv6 address, as the kernel prints them on a little-endian machine."""
