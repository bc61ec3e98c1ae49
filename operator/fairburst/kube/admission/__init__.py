"""The admission webhook, which sets pod priorities where the API server has no mutating admission policies."""
