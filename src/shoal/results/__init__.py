"""A result, and the page to hand on: it opens anywhere, asks nothing of the network, and prints.

The page says what was found and how sure that is, what it gives away about each person, what has to
be believed for that, and how it was done. The same guarantee is in it for programs, as JSON in
``<script type="application/json" id="privacy-statement">``.
"""
