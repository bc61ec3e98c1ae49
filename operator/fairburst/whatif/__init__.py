"""What a change would do: a round decided again with other queues, weights or capacity. Pure, on the decision core alone."""
