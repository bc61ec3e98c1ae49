"""The demo: one workload on one cluster, first without fairburst, then with it; a live table, and the figures of both at the end."""
