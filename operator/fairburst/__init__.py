"""fairburst: bounded priority for bursts, fair shares for batch work, on one Kubernetes cluster."""
