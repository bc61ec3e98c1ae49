"""Effects of a change: a round decided again with other queues, weights or capacity. Pure, on the decision core alone."""
