#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gres=gpu:h200:8
export LAUNCHER="accelerate launch \
    --num_processes 16 --num_machines 2 --multi_gpu \
    --rdzv_backend c10d --main_process_ip $head --main_process_port 29500"
export SCRIPT="train.py --mixed_precision bf16"
srun $LAUNCHER $SCRIPT
