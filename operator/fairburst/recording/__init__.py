"""Recordings of rounds: the operator's inputs, memory and decisions in a file, and their replay (docs/recordings.md)."""
