"""One module for each kind of figure, in one style."""
