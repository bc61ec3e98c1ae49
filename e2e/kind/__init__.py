"""kind: three nodes as containers with real kubelets, for the tests of e2e/promises and the demo."""
