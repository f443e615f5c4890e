# An elastic job without a scheduler.
GPUS=$((2 * 4))
torchrun --nnodes=1:4 --nproc-per-node=$GPUS --max-restarts=3 --rdzv-id=42 \
  --rdzv-backend=c10d --rdzv-endpoint=host0:29400 train.py
