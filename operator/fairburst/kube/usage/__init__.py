"""What there is, what is used and what is wanted: capacity, pods, controllers."""
