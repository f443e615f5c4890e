#!/bin/bash
#SBATCH --job-name=llama
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=h100:8
#SBATCH --cpus-per-task=96
#SBATCH --time=24:00:00   # a day

nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
head_node=${nodes[0]}
head_node_ip=$(srun --nodes=1 --ntasks=1 -w "$head_node" hostname --ip-address)
export LOGLEVEL=INFO
GPUS_PER_NODE=8

srun torchrun \
    --nnodes $SLURM_NNODES \
    --nproc_per_node $GPUS_PER_NODE \
    --rdzv_id $RANDOM --rdzv_backend c10d \
    --rdzv_endpoint "$head_node_ip:29500" \
    train.py --batch-size 8 --num_nodes 99   # not torchrun's
