"""Planted bugs: each is a patch of one file, and names the lines of the audit that must refute the result."""
