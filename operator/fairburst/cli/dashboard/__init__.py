"""The dashboard: the pool in a browser, read with the user's rights. A local server keeps its page current."""
