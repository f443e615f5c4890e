mpirun --hostfile hosts.txt -npernode 8 python train.py
