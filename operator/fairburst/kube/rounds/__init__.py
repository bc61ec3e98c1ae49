"""The steps of one scheduling round, one module each; `kube/engine.py` lists them in order.

A step keeps its results by namespace and computes them again only for the namespaces in `RoundContext.touched`.
"""
