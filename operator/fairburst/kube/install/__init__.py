"""What an installation needs besides the process, and how all of it is taken away again."""
