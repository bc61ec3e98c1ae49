"""Effects of a change: a round decided again with other queues, weights or capacity. Pure; it needs the decision core only."""
