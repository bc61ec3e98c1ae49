"""What turns the sources into something to install: the chart's generated parts, the SBOM, and the checks before a release."""
