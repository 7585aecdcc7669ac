"""Lower bounds on epsilon from running a pipeline: whether it keeps what is claimed."""

from shoal.auditing.auditor import audit as audit
from shoal.auditing.limits import coin_bound as coin_bound
from shoal.auditing.limits import lower_bound as lower_bound
from shoal.auditing.result import Audit as Audit
from shoal.auditing.result import Evidence as Evidence
from shoal.auditing.subjects import AuditedCodeError as AuditedCodeError
from shoal.auditing.subjects import Function as Function
from shoal.auditing.subjects import Neighbours as Neighbours
from shoal.auditing.subjects import Program as Program
from shoal.auditing.subjects import WholePipeline as WholePipeline
