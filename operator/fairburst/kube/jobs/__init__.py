"""Jobs as input of DRESS and PAF: their size, tasks and runs, the reserve for small jobs, the parallelism of elastic jobs."""
