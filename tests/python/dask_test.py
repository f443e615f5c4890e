"""A sweep on Dask: two worker processes, one killed half-way. Nothing is lost, nothing is there twice.

A script, not a test of pytest: Dask starts its worker processes by importing the main module.
"""
import json
import os
import pathlib
import signal
import sys
import tempfile

import pandas

import trainyard as ty

SCENARIO = "scenarios/what_if/tensor.json"


def grid():
    return ty.Grid(SCENARIO, {"training.global_batch_size": list(range(8, 8 + 24 * 4, 4)),
                              "training.recompute": ["none", "full"]})


def main():
    from distributed import Client, LocalCluster

    expected = ty.sweep(grid())
    journal = pathlib.Path(tempfile.mkdtemp()) / "sweep.jsonl"
    killed = []
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster, \
            Client(cluster) as client:

        def kill_one_half_way(done, total):
            if not killed and done >= total / 2:
                killed.append(done)
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

        frame = ty.sweep(grid(), client=client, journal=journal, progress=kill_one_half_way)
    keys = [json.loads(line)["key"] for line in journal.read_text().splitlines()]
    assert killed, "no worker was killed"
    assert len(keys) == len(set(keys)) == len(expected) == 48, "rows are lost, or there twice"
    pandas.testing.assert_frame_equal(frame, expected)
    print(f"{len(frame)} rows by two workers, one killed after {killed[0]:g}: all there, each once")


if __name__ == "__main__":
    try:
        import distributed  # noqa: F401
    except ImportError:
        print("SKIPPED, NOT TESTED: a sweep on Dask needs python3-distributed")
        sys.exit(77)
    main()
