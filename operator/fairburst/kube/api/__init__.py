"""Talking to an API server: who we are, requests, typed objects, live copies of collections."""
