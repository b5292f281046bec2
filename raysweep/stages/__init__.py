"""Artifacts of stages: each is computed once and shared."""
