"""Checks requests and responses of the protocols "query", "ec2" and "json" against botocore's service models.

What the models do not allow is a bug of pgdyno in a request, and of the simulator in a response.
"""

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any

import botocore.session
from botocore.parsers import create_parser
from botocore.validate import ParamValidator

Form = dict[str, str]


class ShapeError(AssertionError):
    """A request or response does not match Amazon's description."""


@cache
def service_model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)


# ---- requests ----


def read_request(service: str, form: Form) -> tuple[str, dict[str, Any]]:
    """Returns operation and parameters of a request. Raises ShapeError if they do not match the model."""
    model = service_model(service)
    name = form["Action"]
    if name not in model.operation_names:
        raise ShapeError(f"{service} has no operation {name}")
    left = {key: value for key, value in form.items() if key not in ("Action", "Version")}
    shape = model.operation_model(name).input_shape
    ec2 = model.metadata["protocol"] == "ec2"
    parameters = _structure(shape, "", left, ec2=ec2) if shape is not None else {}
    if left:
        raise ShapeError(f"{service}:{name} has no parameters {sorted(left)}")
    if shape is not None:
        _validate(f"{service}:{name}", parameters, shape)
    return name, parameters


def _validate(what: str, value: Any, shape: Any) -> None:
    report = ParamValidator().validate(value, shape)
    if report.has_errors():
        raise ShapeError(f"{what}: {report.generate_report()}")


def _structure(shape: Any, prefix: str, form: Form, *, ec2: bool) -> dict[str, Any]:
    found = {}
    for name, member in shape.members.items():
        key = f"{prefix}{_key(name, member, ec2=ec2)}"
        if any(each == key or each.startswith(f"{key}.") for each in form):
            found[name] = _value(member, key, form, ec2=ec2)
    return found


def _key(name: str, member: Any, *, ec2: bool) -> str:
    if not ec2:
        return str(member.serialization.get("name", name))
    if "queryName" in member.serialization:
        return str(member.serialization["queryName"])
    text = str(member.serialization.get("name", name))
    return text[0].upper() + text[1:]


def _value(shape: Any, key: str, form: Form, *, ec2: bool) -> Any:
    if shape.type_name == "structure":
        return _structure(shape, f"{key}.", form, ec2=ec2)
    if shape.type_name == "list":
        return list(_elements(shape, key, form, ec2=ec2))
    text = form.pop(key)
    match shape.type_name:
        case "integer" | "long":
            return int(text)
        case "float" | "double":
            return float(text)
        case "boolean":
            return {"true": True, "false": False}[text]
        case "timestamp":
            return datetime.fromisoformat(text)
        case _:
            return text


def _elements(shape: Any, key: str, form: Form, *, ec2: bool) -> Iterator[Any]:
    flat = ec2 or shape.serialization.get("flattened")
    under = key if flat else f"{key}.{shape.member.serialization.get('name', 'member')}"
    number = 1
    while any(each == f"{under}.{number}" or each.startswith(f"{under}.{number}.") for each in form):
        yield _value(shape.member, f"{under}.{number}", form, ec2=ec2)
        number += 1


def read_json_request(service: str, target: str, body: str) -> tuple[str, dict[str, Any]]:
    """Does the same in the protocol "json", which names the operation in a header."""
    model = service_model(service)
    prefix, _, name = target.partition(".")
    if prefix != model.metadata["targetPrefix"] or name not in model.operation_names:
        raise ShapeError(f"{service} has no operation {target}")
    return name, read_json_parameters(service, name, json.loads(body))


def read_json_parameters(service: str, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Returns `parameters`. Raises ShapeError if they do not match the model."""
    shape = service_model(service).operation_model(operation).input_shape
    _known(f"{service}:{operation}", parameters, shape)
    _validate(f"{service}:{operation}", parameters, shape)
    return parameters


def checked_json(service: str, operation: str, found: dict[str, Any]) -> bytes:
    """Returns the body of a response with the content `found`. Raises ShapeError if it does not match the model."""
    shape = service_model(service).operation_model(operation).output_shape
    _known(f"reply of {service}:{operation}", found, shape)
    _validate(f"reply of {service}:{operation}", found, shape)
    return json.dumps(found).encode()


def _known(what: str, value: Any, shape: Any) -> None:
    if shape.type_name == "structure":
        if strange := value.keys() - shape.members.keys():
            raise ShapeError(f"{what} has no members {sorted(strange)}")
        for name, each in value.items():
            _known(f"{what}.{name}", each, shape.members[name])
    elif shape.type_name == "list":
        for each in value:
            _known(what, each, shape.member)


# ---- replies ----


def read_reply(service: str, operation: str, body: bytes) -> dict[str, Any]:
    """Returns the content of a response. Raises ShapeError if it does not match the model."""
    model = service_model(service)
    shape = model.operation_model(operation).output_shape
    root = ET.fromstring(body)
    if shape is None:
        return {}
    ec2 = model.metadata["protocol"] == "ec2"
    wrapper = shape.serialization.get("resultWrapper")
    element = root if wrapper is None else root.find(f"{{*}}{wrapper}")
    if element is None:
        raise ShapeError(f"{service}:{operation}: the reply has no {wrapper}")
    problems = list(_unknown(element, shape, operation, ec2=ec2))
    if problems:
        raise ShapeError(f"{service}:{operation}: the reply has what Amazon's has not: {problems}")
    answer = {"body": body, "headers": {}, "status_code": 200}
    found: dict[str, Any] = create_parser(model.metadata["protocol"]).parse(answer, shape)
    del found["ResponseMetadata"]
    _validate(f"reply of {service}:{operation}", found, shape)
    return found


def _tag(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _unknown(element: ET.Element, shape: Any, path: str, *, ec2: bool) -> Iterator[str]:
    if shape.type_name == "structure":
        members: dict[str, Any] = {}
        for name, member in shape.members.items():
            flat = member.type_name == "list" and member.serialization.get("flattened")
            inner = member.member.serialization.get("name") if flat else None
            members[inner or member.serialization.get("name", name)] = member.member if flat else member
        for child in element:
            tag = _tag(child)
            if tag in members:
                yield from _unknown(child, members[tag], f"{path}.{tag}", ec2=ec2)
            elif tag not in ("ResponseMetadata", "requestId"):
                yield f"{path}.{tag}"
    elif shape.type_name == "list":
        name = shape.member.serialization.get("name", "member")
        for child in element:
            if _tag(child) == name:
                yield from _unknown(child, shape.member, f"{path}.{name}", ec2=ec2)
            else:
                yield f"{path}.{_tag(child)}"


def write_reply(service: str, operation: str, found: dict[str, Any]) -> bytes:
    """Returns the XML of a response with the content `found`."""
    shape = service_model(service).operation_model(operation).output_shape
    if service_model(service).metadata["protocol"] == "ec2":
        plain = ET.Element(f"{operation}Response", xmlns="http://ec2.amazonaws.com/doc/2016-11-15/")
        ET.SubElement(plain, "requestId").text = "simulated"
        if shape is not None:
            _write(plain, shape, found)
        return bytes(ET.tostring(plain, encoding="utf-8", xml_declaration=True))
    root = ET.Element(f"{operation}Response", xmlns="http://rds.amazonaws.com/doc/2014-10-31/")
    if shape is not None:
        result = ET.SubElement(root, shape.serialization["resultWrapper"])
        _write(result, shape, found)
    ET.SubElement(ET.SubElement(root, "ResponseMetadata"), "RequestId").text = "simulated"
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def _write(element: ET.Element, shape: Any, value: Any) -> None:
    match shape.type_name:
        case "structure":
            for name, each in value.items():
                member = shape.members[name]
                _write(ET.SubElement(element, member.serialization.get("name", name)), member, each)
        case "list":
            for each in value:
                _write(ET.SubElement(element, shape.member.serialization.get("name", "member")), shape.member, each)
        case "boolean":
            element.text = "true" if value else "false"
        case "timestamp":
            element.text = value.isoformat()
        case _:
            element.text = str(value)


def is_json(service: str) -> bool:
    """Returns whether boto3 uses JSON for the service."""
    return str(service_model(service).resolved_protocol) in ("json", "rest-json")


def write_error(service: str, code: str, message: str) -> bytes:
    """Returns the body of an error response."""
    if is_json(service):
        return json.dumps({"__type": code, "message": message}).encode()
    if service_model(service).metadata["protocol"] == "ec2":
        root = ET.Element("Response")
        error = ET.SubElement(ET.SubElement(root, "Errors"), "Error")
    else:
        root = ET.Element("ErrorResponse")
        error = ET.SubElement(root, "Error")
        ET.SubElement(error, "Type").text = "Sender"
    ET.SubElement(error, "Code").text = code
    ET.SubElement(error, "Message").text = message
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))
