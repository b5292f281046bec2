"""Logs sweeps to MLflow: what their runs contain, and how they are written."""
