"""The demo: one workload on one cluster, first without fairburst, then with it; a live table, and both sides' figures at the end."""
