"""Builds of a release from the sources: the chart's generated parts, the SBOM, and the checks before a release."""
