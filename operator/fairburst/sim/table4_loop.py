"""The step loop of the BoPF authors' simulator (Table 4), with its artefacts: rounding, whole seconds, blocking by the first offer.

The decision core does not use it. The same source runs in two ways with the same results: compiled by numba if the extra `sim` is
installed, otherwise interpreted over plain lists. It therefore uses only plain numbers, no allocations of unknown size, no Python objects.

Amounts are hundredths of a unit. Only shares are in double precision, because the authors compare them so. The loop starts tasks of one
stage in runs as long as the authors' choice of the queue cannot change: a queue with the lowest rounded share keeps its turn until that
share rises.
"""

from __future__ import annotations

DRF, STRICT_PRIORITY, BOPF = 0, 1, 2
DONE, OUT_OF_BURSTS = 0, 1


def run_steps(  # type: ignore[no-untyped-def]  # noqa: PLR0912, PLR0915  compiled as a whole; parts would have to pass thirty arrays
    policy, queues, period, on_seconds, grain, exact, fullest, capacity, wheel,
    job_begin, job_arrival, job_stage, stage_job, stage_seconds, stage_cpu, stage_memory, child_begin, children, waits_for,
    queue_of_job, runnable, offered_from, offered_to, not_started, not_ended, last_batch, last_start, job_left, first_start, end,
    wheel_head, batch_next, batch_stage, batch_count, cursor, usage_cpu, usage_memory, share, out, dirty, log_cpu, log_memory, answer,
):  # fmt: skip
    """Run to the stop. Returns DONE, or OUT_OF_BURSTS if more latency jobs would have to arrive than were laid out.

    queues: number of queues; 0 .. queues-2 are throughput queues, the last is the latency queue.
    job_begin: jobs of queue q are job_begin[q] .. job_begin[q+1]-1, in order of arrival.
    job_stage: stages of job j are job_stage[j] .. job_stage[j+1]-1, in file order.
    grain: shares are rounded to 1/grain; the authors use 100.
    exact: round half up (1), or as doubles come out (0, the authors').
    fullest: the budget is spent with its first resource (1), or only with all of them (0, the authors').
    waits_for: parents that have not ended.
    runnable: a job's stages in the order in which they became runnable, at the positions of its stages.
    offered_from, offered_to: bounds of the runnable stages with tasks to start.
    cursor: first job of the queue that may offer a task.
    wheel_head: the batches of wheel_head[t % wheel] end at t.
    first_start, end: -1 until known.
    log_cpu, log_memory: running sums of the latency queue's usage at the end of each scheduling step.
    answer: scheduling steps, tasks started, time of the stop.
    """
    latency = queues - 1
    throughput_left = job_begin[latency]
    arriving, last_job = job_begin[latency], job_begin[queues]
    free_cpu, free_memory = capacity, capacity
    units = capacity / 100
    free_batch = 0
    logged, started_in_all = 0, 0
    time = -1
    while True:
        time += 1
        changed = False
        dirty_jobs = 0
        # (1) end the tasks whose time is over
        batch = wheel_head[time % wheel]
        wheel_head[time % wheel] = -1
        while batch >= 0:
            changed = True
            stage = batch_stage[batch]
            count = batch_count[batch]
            job = stage_job[stage]
            queue = queue_of_job[job]
            free_cpu += count * stage_cpu[stage]
            free_memory += count * stage_memory[stage]
            usage_cpu[queue] -= count * stage_cpu[stage]
            usage_memory[queue] -= count * stage_memory[stage]
            not_ended[stage] -= count
            if not_ended[stage] == 0:
                for position in range(child_begin[stage], child_begin[stage + 1]):
                    waits_for[children[position]] -= 1
                job_left[job] -= 1
                if job_left[job] == 0:
                    end[job] = time
                    if queue != latency:
                        throughput_left -= 1
                else:
                    dirty[dirty_jobs] = job
                    dirty_jobs += 1
            following = batch_next[batch]
            batch_next[batch] = free_batch
            free_batch = batch
            batch = following
        # (2) stages whose parents have ended become runnable, in file order
        for position in range(dirty_jobs):
            job = dirty[position]
            for stage in range(job_stage[job], job_stage[job + 1]):
                if waits_for[stage] == 0:
                    waits_for[stage] = -1
                    runnable[offered_to[job]] = stage
                    offered_to[job] += 1
                    queue = queue_of_job[job]
                    cursor[queue] = min(cursor[queue], job)
        # (3) jobs arrive; all throughput jobs arrive at 0
        if time == 0:
            for job in range(job_begin[latency]):
                changed = True
                for stage in range(job_stage[job], job_stage[job + 1]):
                    if waits_for[stage] == 0:
                        waits_for[stage] = -1
                        runnable[offered_to[job]] = stage
                        offered_to[job] += 1
        while arriving < last_job and job_arrival[arriving] <= time:
            changed = True
            for stage in range(job_stage[arriving], job_stage[arriving + 1]):
                if waits_for[stage] == 0:
                    waits_for[stage] = -1
                    runnable[offered_to[arriving]] = stage
                    offered_to[arriving] += 1
            cursor[latency] = min(cursor[latency], arriving)
            arriving += 1
        # (4) stop when all throughput jobs have ended
        if throughput_left == 0:
            answer[0] = logged
            answer[1] = started_in_all
            answer[2] = time
            return DONE
        if not changed:
            continue
        if arriving == last_job:
            return OUT_OF_BURSTS
        # (5) schedule
        limit_cpu, limit_memory = capacity, capacity
        if policy == BOPF:
            since = time % period
            back = logged - since if logged > since else 0
            received_cpu = log_cpu[logged] - log_cpu[back]
            received_memory = log_memory[logged] - log_memory[back]
            in_window = since <= on_seconds
            short = received_cpu < on_seconds * capacity or received_memory < on_seconds * capacity
            if fullest == 1:
                short = received_cpu < on_seconds * capacity and received_memory < on_seconds * capacity
            if not (in_window or short):
                over = queues * (period - on_seconds)
                limit_cpu = max(0, capacity * period - queues * received_cpu) // over
                limit_memory = max(0, capacity * period - queues * received_memory) // over
        # two turns: first the latency queue alone (SP, BoPF), then the others; DRF has one turn with all queues
        for turn in range(2):
            first, last = 0, queues
            if policy == DRF:
                if turn == 0:
                    continue
            elif turn == 0:
                first = latency
            else:
                last = latency
            for queue in range(first, last):
                out[queue] = 0
                # usage / capacity in steps of 1 / grain (100: whole percents); rounding is monotonic, so it is done once for the larger
                used = usage_cpu[queue] if usage_cpu[queue] > usage_memory[queue] else usage_memory[queue]
                if exact == 1:
                    share[queue] = (2 * grain * used + capacity) // (2 * capacity)
                else:  # in this order, in double precision: 14.5 % becomes 14, 29.5 % becomes 30
                    share[queue] = int(used / 100 / units * grain + 0.5)
            while True:
                queue = -1
                for candidate in range(first, last):
                    if out[candidate] == 0 and (queue < 0 or share[candidate] < share[queue]):
                        queue = candidate
                if queue < 0:
                    break
                job = cursor[queue]
                beyond = job_begin[queue + 1] if queue != latency else arriving
                while job < beyond and offered_from[job] == offered_to[job]:
                    job += 1
                cursor[queue] = job
                if job >= beyond:
                    out[queue] = 1
                    continue
                stage = runnable[offered_from[job]]
                cpu, memory = stage_cpu[stage], stage_memory[stage]
                count = not_started[stage]
                room_cpu, room_memory = free_cpu, free_memory
                if queue == latency:
                    room_cpu = min(room_cpu, limit_cpu - usage_cpu[queue])
                    room_memory = min(room_memory, limit_memory - usage_memory[queue])
                if room_cpu < cpu or room_memory < memory:
                    out[queue] = 1
                    continue
                if cpu > 0:
                    count = min(count, room_cpu // cpu)
                    until = (capacity * (2 * share[queue] + 1) + 2 * grain - 1) // (2 * grain)
                    count = min(count, max(1, (until - usage_cpu[queue] + cpu - 1) // cpu))
                if memory > 0:
                    count = min(count, room_memory // memory)
                    until = (capacity * (2 * share[queue] + 1) + 2 * grain - 1) // (2 * grain)
                    count = min(count, max(1, (until - usage_memory[queue] + memory - 1) // memory))
                free_cpu -= count * cpu
                free_memory -= count * memory
                usage_cpu[queue] += count * cpu
                usage_memory[queue] += count * memory
                not_started[stage] -= count
                started_in_all += count
                if not_started[stage] == 0:
                    offered_from[job] += 1
                if first_start[job] < 0:
                    first_start[job] = time
                # usage / capacity in steps of 1 / grain (100: whole percents); rounding is monotonic, so it is done once for the larger
                used = usage_cpu[queue] if usage_cpu[queue] > usage_memory[queue] else usage_memory[queue]
                if exact == 1:
                    share[queue] = (2 * grain * used + capacity) // (2 * capacity)
                else:  # in this order, in double precision: 14.5 % becomes 14, 29.5 % becomes 30
                    share[queue] = int(used / 100 / units * grain + 0.5)
                if last_start[stage] == time:
                    batch_count[last_batch[stage]] += count
                else:
                    batch = free_batch
                    free_batch = batch_next[batch]
                    batch_stage[batch] = stage
                    batch_count[batch] = count
                    slot = (time + stage_seconds[stage]) % wheel
                    batch_next[batch] = wheel_head[slot]
                    wheel_head[slot] = batch
                    last_batch[stage] = batch
                    last_start[stage] = time
        log_cpu[logged + 1] = log_cpu[logged] + usage_cpu[latency]
        log_memory[logged + 1] = log_memory[logged] + usage_memory[latency]
        logged += 1
