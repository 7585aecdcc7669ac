"""Lower bounds on epsilon from running a pipeline: whether it keeps what is claimed."""

from shoal.auditing.auditor import audit
from shoal.auditing.limits import coin_bound, lower_bound
from shoal.auditing.result import Audit, Evidence
from shoal.auditing.subjects import AuditedCodeError, Function, Neighbours, Program, WholePipeline

__all__ = [
    "Audit",
    "AuditedCodeError",
    "Evidence",
    "Function",
    "Neighbours",
    "Program",
    "WholePipeline",
    "audit",
    "coin_bound",
    "lower_bound",
]
