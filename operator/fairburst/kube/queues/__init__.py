"""Declarations of users: queue objects and annotations on Jobs; reading, validation, and the governing queue of each namespace."""
