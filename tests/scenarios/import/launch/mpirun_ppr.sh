#SBATCH --nodes=3
#SBATCH --gpus-per-node=4
mpirun -np $(( SLURM_NNODES * 4 )) --map-by ppr:4:node --rank-by slot -x PATH python3 train.py
