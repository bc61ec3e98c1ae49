"""A declaration suggested to a queue from what its work really did. Pure."""
