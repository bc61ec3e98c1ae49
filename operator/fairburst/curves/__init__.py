"""Progress curves learned from completed runs: recorded runs, the fit, and the next parallelism to try. The core sees only the curve."""
