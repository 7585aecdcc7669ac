"""The noise of protocols with several messages, calibrated on exact divergences.

All of them replace one person's datum, cover both orders and count honest people only: noise of
people who may lie is no protection. A ``…_delta`` is an upper bound, tight up to rounding unless
its docstring says otherwise; its inverse returns a parameter at which that bound was evaluated.
"""
