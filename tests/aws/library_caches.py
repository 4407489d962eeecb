"""Keeps what botocore, moto and xmltodict compute anew for each client or request: a third of these tests' CPU time."""

from collections.abc import Callable, Hashable
from typing import Any

import xmltodict  # type: ignore[import-untyped]
from botocore import hooks, useragent
from botocore.client import ClientCreator
from moto.core import responses


def _keep(owner: Any, name: str, depends_on: Callable[..., Hashable]) -> None:
    compute, known = getattr(owner, name), dict[Hashable, Any]()

    def look_up(*given: Any, **named: Any) -> Any:
        key = depends_on(*given, **named)
        return known[key] if key in known else known.setdefault(key, compute(*given, **named))

    setattr(owner, name, look_up)


_keep(hooks, "accepts_kwargs", lambda function: getattr(function, "__code__", function))
_keep(hooks.EventAliaser, "_alias_event_name", lambda _, event: event)
_keep(ClientCreator, "_load_service_model", lambda _, *named: named)
_keep(ClientCreator, "_create_api_method", lambda _, *named: (named[1], named[2].service_name))
_keep(responses, "method_names_from_class", lambda responder: responder)
_keep(useragent, "sanitize_user_agent_string_component", lambda raw_str, allow_hash: (raw_str, allow_hash))
_keep(xmltodict, "_validate_name", lambda *given: given)
