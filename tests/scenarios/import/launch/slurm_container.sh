#!/bin/bash
#SBATCH --nodes=2-16
#SBATCH --gres=gpu:8
#SBATCH --exclusive
LAUNCHER=(
    python -m torch.distributed.run
    --nnodes ${SLURM_JOB_NUM_NODES}
    --nproc-per-node gpu
    --max_restarts 0   # fail at once
)
MODEL=( --num-layers 32 --hidden-size 4096 )
srun --container-image=nvcr.io#nvidia/pytorch:25.01-py3 --container-mounts="$PWD:/w" \
     bash -c "cd /w && ${LAUNCHER[@]} pretrain.py ${MODEL[*]} 2>&1 | tee log.txt"
