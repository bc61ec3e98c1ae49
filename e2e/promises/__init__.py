"""fairburst's promises to its users, a file each, on real nodes: the chart's release in a kind cluster, or in that of E2E_KUBECONFIG."""
