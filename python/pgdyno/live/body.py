"""Bodies of requests: no longer than what our pages send."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

MOST_BYTES = 4_096


async def body_of(request: Request) -> bytes:
    """What was sent. Raises HTTPException when it is more than our pages send."""
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BYTES:
                raise HTTPException(413, "That is more than a page of ours sends.")
    except ClientDisconnect as error:
        raise HTTPException(400, "The request broke off.") from error
    return body
