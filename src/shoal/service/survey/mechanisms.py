"""Which mechanisms a survey may have, and which of them browsers run besides the Python client.

A survey with one of ``PYTHON`` is answered by ``shoal submit`` and :class:`shoal.Client` alone,
which is said when it is written. What is run on tables only is in neither list.
"""

from __future__ import annotations

from shoal.mechanisms import registry

BROWSERS = registry.names(where="browsers")
PYTHON = registry.names(where="clients")
SURVEYS = (*BROWSERS, *PYTHON)
