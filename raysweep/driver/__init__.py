"""One sweep, from start to end."""
