"""Solvers whose columns live with different owners."""
