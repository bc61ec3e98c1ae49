"""PAF: shares of elastic jobs sized by what they are worth (Chen, Wang and Li, "Performance-Aware Fair Scheduling", INFOCOM 2018).

`curves` what progress a job makes with how many slots; `jobs` what comes in and goes out; `shares` fair slots; `transfer` Algorithm 1 on
arrays; `divide` all of it for the queues of a round.
"""
