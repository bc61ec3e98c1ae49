"""Reclaim: makes room for owed amounts by evicting pods that other queues run above their share (docs/decisions/0062)."""
