"""The papers' experiments, one function each, in a table by name."""

from __future__ import annotations

from collections.abc import Mapping

from fairburst.sim.reproductions import (
    alpha,
    dress,
    dress_estimator,
    dress_lead_time,
    dress_sweep,
    paf,
    paf_clusters,
    paf_fits,
    profiles,
    sensitivity,
    several,
    table4,
    testbed,
)
from fairburst.sim.reproductions.result import Experiment

EXPERIMENTS: Mapping[str, Experiment] = {
    "bopf-table4": Experiment("factors of improvement, simulator (BoPF Table 4)", table4.reproduce, 10, takes_trace=True),
    "bopf-table3": Experiment("factors of improvement, 40 nodes (BoPF Table 3)", testbed.table3, 250),
    "bopf-lq-times": Experiment("completion of latency jobs, 40 nodes (BoPF Figs. 7 and 8)", testbed.lq_times, 100),
    "bopf-protection": Experiment("protection of batch work (BoPF Fig. 9, BPF Fig. 8)", testbed.protection, 120),
    "bopf-multi": Experiment("three latency queues (BoPF §5.2.5, Figs. 10 and 11)", several.multi, 60),
    "bopf-motivation": Experiment("the motivating example (BoPF Fig. 6)", several.motivation, 5),
    "bopf-errors": Experiment("estimation errors (BoPF Fig. 13)", sensitivity.errors, 300),
    "bopf-alpha": Experiment("the α-strategy (BoPF Fig. 12)", alpha.reproduce, 280),
    "bpf-nonpreemption": Experiment("non-preemption (BPF Fig. 12)", sensitivity.nonpreemption, 260),
    "bopf-profiles": Experiment("our core against the authors' rules on the same input (ours)", profiles.reproduce, 1500),
    "dress-fig1": Experiment("four jobs on six containers (DRESS Fig. 1)", dress.fig1, 1),
    "dress-table2": Experiment("20 jobs on 100 containers (DRESS Table II, Figs. 6 to 9)", dress.table2, 60),
    "dress-mixed": Experiment("10 to 40 % small jobs (DRESS Figs. 10 to 13)", dress.mixed, 120),
    "dress-estimator": Experiment("release estimators on TPC-H stages (DRESS §III-B)", dress_estimator.reproduce, 60, takes_trace=True),
    "dress-lead-time": Experiment("bursts without preemption at 95 % load (ours)", dress_lead_time.reproduce, 300),
    "dress-sweep": Experiment("what DRESS leaves open, on 10 + 10 seeds (ours)", dress_sweep.reproduce, 900),
    "paf-fig4": Experiment("two jobs on 32 slots (PAF Fig. 4)", paf.fig4, 1, takes_trace=True),
    "paf-fig6": Experiment("the two-job example (PAF Fig. 6)", paf.fig6, 1),
    "paf-fig7": Experiment("three jobs on 128 slots (PAF Figs. 7 to 9)", paf.fig7, 1, takes_trace=True),
    "paf-fig10": Experiment("three clusters (PAF Figs. 10 to 12)", paf_clusters.reproduce, 60, takes_trace=True),
    "paf-fits": Experiment("fits to measured runs (PAF §IV-A)", paf_fits.reproduce, 3, takes_trace=True),
}
