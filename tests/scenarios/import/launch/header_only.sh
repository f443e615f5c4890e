#!/bin/bash
#SBATCH --nodes 16
#SBATCH --gpus-per-node 8
bash run_everything.sh
