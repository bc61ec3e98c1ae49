"""The decision core: pure functions on values. `fairburst.policy.decide.decide` is the only way in."""
