"""Judges whether the figures of a run can be trusted: one module per rule; findings carry their evidence."""

from pgdyno.audit.finding import Evidence, Finding, Severity, worst
from pgdyno.audit.run_rules import RULES, audit, audit_subject

__all__ = ["RULES", "Evidence", "Finding", "Severity", "audit", "audit_subject", "worst"]
