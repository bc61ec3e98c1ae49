"""The dashboard: the pool in a browser, read with the rights of the person who looks. One page that a local server keeps current."""
