#!/bin/bash
#SBATCH --nodes=4
#SBATCH --gpus-per-node=8
torchrun --nnodes 2 --nproc-per-node 8 train.py
