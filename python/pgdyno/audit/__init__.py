"""Whether the figures of a run may be believed: one small module a rule, findings with their evidence."""

from pgdyno.audit.finding import Evidence, Finding, Severity, worst
from pgdyno.audit.registry import RULES, audit, judged

__all__ = ["RULES", "Evidence", "Finding", "Severity", "audit", "judged", "worst"]
