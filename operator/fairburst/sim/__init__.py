"""Virtual time around the decision core: traces, an event engine, the papers' experiments, figures. Knows no Kubernetes."""
