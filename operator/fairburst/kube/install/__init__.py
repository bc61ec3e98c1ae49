"""The objects that an installation needs besides the process, and their removal."""
