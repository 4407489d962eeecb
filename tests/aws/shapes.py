"""Requests and responses as botocore's service models describe them, read and written by botocore and moto.

What the models do not allow is a bug of the simulator in a response; botocore itself checks pgdyno's requests.
"""

import json
from typing import Any
from xml.sax.saxutils import escape

from botocore.parsers import create_parser
from botocore.validate import ParamValidator
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.serialize import get_serializer_class
from moto.core.utils import get_service_model


class ShapeError(AssertionError):
    """A request or response does not match Amazon's description."""


class RefusedError(Exception):
    """The simulator refuses a request as Amazon does."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


def is_json(service: str) -> bool:
    """Returns whether boto3 uses JSON for the service."""
    return str(get_service_model(service).resolved_protocol) in ("json", "rest-json")


def read_request(service: str, form: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """Returns operation and parameters of a request in the protocols "query" and "ec2"."""
    model = get_service_model(service).operation_model(form["Action"])
    parser = PROTOCOL_PARSERS[model.service_model.metadata["protocol"]](model)
    return form["Action"], parser.parse({"values": form})  # type: ignore[typeddict-item]


def read_reply(service: str, operation: str, body: bytes) -> dict[str, Any]:
    """Returns the content of moto's response."""
    model = get_service_model(service).operation_model(operation)
    answer = {"body": body, "headers": {}, "status_code": 200}
    found: dict[str, Any] = create_parser(model.service_model.metadata["protocol"]).parse(answer, model.output_shape)
    del found["ResponseMetadata"]
    return found


def write_reply(service: str, operation: str, found: dict[str, Any]) -> bytes:
    """Returns the body of a response with the content `found`. Raises ShapeError if it does not match the model."""
    model = get_service_model(service).operation_model(operation)
    what = f"reply of {service}:{operation}"
    if model.output_shape is not None:
        _check_members(what, found, model.output_shape)
        if (report := ParamValidator().validate(found, model.output_shape)).has_errors():
            raise ShapeError(f"{what}: {report.generate_report()}")
    if is_json(service):
        return json.dumps(found).encode()
    body = get_serializer_class(service, model.service_model.metadata["protocol"])(model).serialize(found)["body"]
    return body.encode() if isinstance(body, str) else bytes(body)


def _check_members(what: str, value: Any, shape: Any) -> None:
    if shape.type_name == "structure":
        if strange := value.keys() - shape.members.keys():
            raise ShapeError(f"{what} has no members {sorted(strange)}")
        for name, each in value.items():
            _check_members(f"{what}.{name}", each, shape.members[name])
    elif shape.type_name == "list":
        for each in value:
            _check_members(what, each, shape.member)


def write_error(service: str, code: str, message: str) -> bytes:
    """Returns the body of an error response."""
    if is_json(service):
        return json.dumps({"__type": code, "message": message}).encode()
    error = f"<Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error>"
    if get_service_model(service).metadata["protocol"] == "ec2":
        return f"<Response><Errors>{error}</Errors></Response>".encode()
    return f"<ErrorResponse>{error}</ErrorResponse>".encode()
