"""The same work on the same control plane under fairburst and under the tools that people use instead. See docs/peers.md."""
