"""A package, because its tests have the names of analyses, as those of fits have."""
