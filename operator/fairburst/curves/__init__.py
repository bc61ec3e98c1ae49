"""Progress curves learned from completed runs: observations as a value, the fit, and what to try next. The core only sees the curve."""
