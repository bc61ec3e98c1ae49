"""The pictures of the documentation, from one real run: `python -m benchmarks.pictures`."""
