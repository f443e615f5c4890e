"""A sweep over tensor ranks and microbatches, of a scenario that is built here."""

from __future__ import annotations

import trainyard as ty


def scenario() -> ty.Scenario:
    return ty.Scenario(
        model="llama3-8b",
        cluster=ty.Cluster(node="dgx_h100", nodes=1, fabric=ty.Fabric(kind="single_switch")),
        parallelism=ty.Parallelism(tensor=8, sequence_parallel=True),
        training=ty.Training(sequence_length=2048, global_batch_size=16),
    )


def main() -> None:
    grid = ty.Grid(
        scenario(),
        {
            ("parallelism.tensor", "parallelism.data"): [(8, 1), (4, 2), (2, 4)],
            "training.micro_batch_size": [1, 2],
        },
    )
    frame = ty.sweep(grid, progress=False)
    columns = ["parallelism.tensor", "training.micro_batch_size", "status", "step_time_s", "mfu"]
    print(frame[columns].sort_values("step_time_s").to_string(index=False))


if __name__ == "__main__":
    main()
