"""A sweep on Ray, through joblib. Ray is not in Debian, so this file is checked, but not run by the tests."""

from __future__ import annotations

import joblib
from ray.util.joblib import register_ray

import trainyard as ty


def main() -> None:
    register_ray()
    grid = ty.Grid("scenarios/llama3/llama3_8b_8xh100.json", training__micro_batch_size=[1, 2, 4])
    with joblib.parallel_backend("ray"):
        frame = ty.sweep(grid, executor=joblib.Parallel(n_jobs=-1), journal="sweep.jsonl")
    print(frame[["training.micro_batch_size", "status", "step_time_s"]])


if __name__ == "__main__":
    main()
