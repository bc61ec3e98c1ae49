"""The same work on the same control plane under fairburst and under alternative tools. See docs/peers.md."""
