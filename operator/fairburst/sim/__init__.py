"""Simulation of the decision core in virtual time: traces, an event engine, the papers' experiments, figures. Independent of Kubernetes."""
