"""When work will start: the simulator run forward many times from the present state, with durations drawn from those that were seen."""
