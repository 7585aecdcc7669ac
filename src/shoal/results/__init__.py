"""A result, and the page to hand on: it opens anywhere, asks nothing of the network, and prints.

The page says what was found and how sure that is, what it gives away about each person, what has to
be believed for that, and how it was done. The same guarantee is in it for programs, as JSON in
``<script type="application/json" id="privacy-statement">``.
"""

from __future__ import annotations

from shoal.explain.text import finite
from shoal.results.result import ColumnResult, Result, statement

html = Result.to_html  # of a result

__all__ = ["ColumnResult", "Result", "finite", "html", "statement"]
