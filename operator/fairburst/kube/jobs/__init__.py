"""Jobs as DRESS and PAF see them: their size, tasks and runs, the reserve for small ones, the parallelism of elastic ones."""
