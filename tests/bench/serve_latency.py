#!/usr/bin/env python3
"""How soon `trainyard serve` answers after a control is let go, by percentile over 1,000 changes.

    tests/bench/serve_latency.py [TRAINYARD] [CHANGES]      (build/release/trainyard, 1000)

The server and its workers share one core (taskset). Each change is one control of the page, drawn from a seed: a size of
the layout, a NIC rate, GPUs, a batch. Five models on 8 to 1,024 GPUs take turns. A change that makes no legal scenario is
refused, and counted on its own. Goal: half of the answers within 50 ms, 99 % within 250 ms.
"""
import http.client
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

TREE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = sys.argv[1] if len(sys.argv) > 1 else str(TREE / "build/release/trainyard")
CHANGES = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
# scenario, layers, GPUs of a node, largest number of nodes
BEGIN = [("llama3/llama3_8b_8xh100.json", 32, 8, 8), ("llama3/llama3_70b_64xh100.json", 80, 8, 64),
         ("megatron/gpt3_175b_64xa100_selective.json", 96, 8, 128), ("megatron/gpt_76p1b_1024xa100.json", 60, 8, 128),
         ("moe/mixtral_8x7b_64xh100.json", 32, 8, 32)]


def divisors(number, most):
    return [value for value in range(1, most + 1) if number % value == 0]


def changed(scenario, layers, per_node, most_nodes, draw):
    """The scenario after one control has moved, and the name of the control."""
    parallelism, training, cluster = (scenario.setdefault(part, {}) for part in ("parallelism", "training", "cluster"))
    name = draw.choice(["tensor", "pipeline", "micro_batch_size", "recompute", "zero_stage", "nic", "nic", "nodes",
                        "global_batch_size", "sequence_length", "interleave"])
    if name == "tensor":
        parallelism["tensor"] = draw.choice([1, 2, 4, 8])
    elif name == "pipeline":
        parallelism["pipeline"] = draw.choice(divisors(layers, 16))
        parallelism["interleave"] = 1
    elif name == "interleave":
        parallelism["interleave"] = draw.choice(divisors(layers // parallelism.get("pipeline", 1), 6))
    elif name == "zero_stage":
        parallelism["zero_stage"] = draw.choice([0, 1, 2, 3])
    elif name == "nic":
        rate = draw.choice([50, 100, 200, 400, 800])
        cluster["nic"] = {"usable": f"{0.97 * rate} Gb/s", "nominal": f"{rate} Gb/s"}
    elif name == "nodes":
        cluster["nodes"] = min(most_nodes, draw.choice([2 ** power for power in range(8)]))
    elif name == "recompute":
        training["recompute"] = draw.choice(["none", "selective", "full"])
    elif name == "micro_batch_size":
        training["micro_batch_size"] = draw.choice([1, 2, 4])
    elif name == "global_batch_size":
        training["global_batch_size"] = draw.choice([128, 256, 512, 1024])
    else:
        training["sequence_length"] = draw.choice([2048, 4096, 8192])
    for key in ("first_stage_layers", "last_stage_layers", "layers_per_stage"):
        parallelism.pop(key, None)
    chunks = parallelism.get("interleave", 1)
    if parallelism.get("schedule", "1f1b") in ("1f1b", "interleaved_1f1b"):
        parallelism["schedule"] = "interleaved_1f1b" if chunks > 1 else "1f1b"
    ranks = parallelism.get("tensor", 1) * parallelism.get("pipeline", 1) * parallelism.get("context", 1)
    gpus = cluster.get("nodes", 1) * per_node
    if gpus % ranks == 0:
        parallelism["data"] = gpus // ranks
    parallelism["sequence_parallel"] = parallelism.get("tensor", 1) > 1
    return name


def percentile(sorted_values, share):
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))]


def main():
    server = subprocess.Popen(["taskset", "-c", "0", PROGRAM, "serve", "--processes", "1"], stdout=subprocess.PIPE, text=True, cwd=TREE)
    address = re.search(r":(\d+)/\?token=(\w+)", server.stdout.readline())
    os.sched_setaffinity(0, set(os.sched_getaffinity(0)) - {0} or {0})
    connection = http.client.HTTPConnection("127.0.0.1", int(address[1]))
    headers = {"Authorization": "Bearer " + address[2], "Content-Type": "application/json"}

    def ask(scenario):
        connection.request("POST", "/api/jobs?wait_ms=10000", json.dumps({"kind": "run", "scenario": scenario, "client": "bench"}), headers)
        return json.loads(connection.getresponse().read())

    draw = random.Random(1)
    scenarios = [json.loads((TREE / "scenarios" / file).read_text()) for file, *_ in BEGIN]
    answered, refused, slowest = [], [], []
    by_control = {}
    while len(answered) < CHANGES:
        number = draw.randrange(len(BEGIN))
        scenario = json.loads(json.dumps(scenarios[number]))
        name = changed(scenario, *BEGIN[number][1:], draw)
        begin = time.perf_counter()
        state = ask(scenario)
        took = 1000 * (time.perf_counter() - begin)
        if state["status"] == "done":
            answered.append(took)
            scenarios[number] = scenario
            by_control.setdefault(name, []).append(took)
            slowest.append((took, name, BEGIN[number][0], state["answer"]["gpus"], state["answer"]["result"]["fold"]["operations"]))
        else:
            refused.append(took)
    server.send_signal(signal.SIGINT)
    server.wait()
    answered.sort()
    print(f"{len(answered)} answers: " + ", ".join(f"p{round(100 * share)} {percentile(answered, share):.0f} ms" for share in (0.5, 0.9, 0.95, 0.99))
          + f", slowest {answered[-1]:.0f} ms; {len(refused)} refusals, p99 {percentile(sorted(refused), 0.99):.0f} ms")
    for name, times in sorted(by_control.items(), key=lambda item: -percentile(sorted(item[1]), 0.5)):
        times.sort()
        print(f"  {name:<18} {len(times):4} changes: p50 {percentile(times, 0.5):4.0f} ms, p99 {percentile(times, 0.99):4.0f} ms")
    for took, name, file, gpus, operations in sorted(slowest, reverse=True)[:5]:
        print(f"  slowest: {took:4.0f} ms, {name} of {file} on {gpus} GPUs, {operations} operations")


main()
