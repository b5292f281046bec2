"""Runs one sweep from start to end."""
