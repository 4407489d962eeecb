"""The docstrings after the fields of a model, read from its source."""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise

from pydantic import BaseModel


def field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Returns docstrings by field, those of inherited fields included."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if issubclass(each, BaseModel) and each is not BaseModel:
            found |= _by_class(each.__module__).get(each.__qualname__, {})
    return {name: text for name, text in found.items() if name in model.model_fields}


@cache
def _by_class(module: str) -> dict[str, dict[str, str]]:
    """Returns the docstrings of the top classes of a module, by class and attribute."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {each.name: _docstrings(each) for each in tree.body if isinstance(each, ast.ClassDef)}


def _docstrings(of: ast.ClassDef) -> dict[str, str]:
    found = {}
    for field, text in pairwise(of.body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(written))):
                found[name] = inspect.cleandoc(written)
    return found
