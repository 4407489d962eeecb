"""Checks the conditions of a run before it begins: the machine, its storage, its clock, the generator."""

from pgdyno.doctor.all_checks import BRIEF, THOROUGH, Patience, examine, preflight
from pgdyno.doctor.check import CHECKS, not_fine, worst
from pgdyno.doctor.needs import Needs, Place, needs_of_machine, needs_of_plan
from pgdyno.doctor.remote import environments
from pgdyno.doctor.system import System

__all__ = [
    "BRIEF",
    "CHECKS",
    "THOROUGH",
    "Needs",
    "Patience",
    "Place",
    "System",
    "environments",
    "examine",
    "needs_of_machine",
    "needs_of_plan",
    "not_fine",
    "preflight",
    "worst",
]
