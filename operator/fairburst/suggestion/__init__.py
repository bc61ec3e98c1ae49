"""The suggestion of a declaration for a queue from its past work. Pure."""
