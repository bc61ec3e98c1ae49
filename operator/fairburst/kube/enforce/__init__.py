"""From levels to what holds them on the cluster: quotas, stamps, waking. Plans only; `apply.py` sends."""
