import ray
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer

NODES = 4
GPUS_PER_NODE = 8  # of each

# An earlier try: ScalingConfig(num_workers=2)
trainer = TorchTrainer(
    lambda: None,
    scaling_config=ScalingConfig(
        num_workers=NODES * GPUS_PER_NODE,  # one a GPU
        use_gpu=True,
        resources_per_worker={"CPU": 12, "GPU": 1},
        accelerator_type="H100",
        placement_strategy="PACK",
    ),
)
