"""Reads sweeps in a storage: their state, rows, findings, reports and comparisons. It computes no rows."""
