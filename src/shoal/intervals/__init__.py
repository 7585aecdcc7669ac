"""Estimates and their confidence limits, and the laws of errors that these follow from."""
