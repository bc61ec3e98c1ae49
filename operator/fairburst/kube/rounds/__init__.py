"""The steps of one scheduling round, one module each; `kube/engine.py` lists them in order.

A step keeps what it worked out for each namespace and works it out again only for the namespaces that `RoundContext.touched` names.
"""
