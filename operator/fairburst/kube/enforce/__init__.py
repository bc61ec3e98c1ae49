"""The enforcement of levels on the cluster: quotas, pod priorities, resync. Plans only; `apply.py` sends."""
