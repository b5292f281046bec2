"""What it takes to locate every zero or best value with a precision, by search: see `__main__`."""
