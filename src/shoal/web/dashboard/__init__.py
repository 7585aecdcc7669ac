"""The dashboard: how a survey goes, what it found, what that costs, and whether the keys are well.

Everything on it is made from what was published, or closed and collected. Of the batch that is
open it knows what the shuffler tells everybody: how many quarters of the smallest crowd are there.
"""

from __future__ import annotations

from shoal.web.dashboard.routes import routes

__all__ = ["routes"]
