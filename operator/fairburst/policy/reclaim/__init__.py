"""Reclaim: room for what a queue is owed, by evicting work that others run above their share (docs/decisions/0062)."""
