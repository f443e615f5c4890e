#!/bin/bash
#SBATCH -N 2
#SBATCH -n 16
#SBATCH --gres=gpu:a100:8,nvme:1
#SBATCH -C infiniband
module load cuda openmpi
srun -l --mpi=pmix -N2 --cpu-bind=none python -u train.py --gpus 4
