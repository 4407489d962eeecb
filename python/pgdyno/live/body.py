"""Request bodies with a size limit."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

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
