"""From levels to what holds them on the cluster: quotas, pod priorities, resync. Plans only; `apply.py` sends."""
