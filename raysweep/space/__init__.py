"""What a sweep is asked to do: the schema of a space, its YAML, and the packaged spaces."""
