"""PAF: slots of elastic jobs by predicted progress (Chen, Wang and Li, "Performance-Aware Fair Scheduling", INFOCOM 2018).

`curves`: progress by slots. `jobs`: inputs and results. `shares`: fair slots. `transfer`: Algorithm 1 on arrays. `divide`: the division for
a round's queues.
"""
