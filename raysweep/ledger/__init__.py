"""The record of a sweep: its rows, in immutable segments."""
