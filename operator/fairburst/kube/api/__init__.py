"""Access to an API server: credentials, requests, typed objects, live copies of collections."""
