"""The command line: each command in its own module."""
