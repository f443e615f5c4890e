#!/bin/bash
# A GPT of 175 billion parameters on 8 nodes, in the manner of launch scripts.
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-8}     # the job's own number where there is one
GLOBAL_BATCH=${GLOBAL_BATCH:-64}
TP=8
PP="8"
DATA_PATH=$1

LAUNCHER=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NNODES
)
MODEL=(
    --num-layers 96 --hidden-size 12288
    --num-attention-heads 96
    --seq-length 2048 --max-position-embeddings 2048
    --tokenizer-type GPT2BPETokenizer --make-vocab-size-divisible-by 128
)
TRAINING=(
    --micro-batch-size 1 --global-batch-size=$GLOBAL_BATCH
    --fp16 --accumulate-allreduce-grads-in-fp32 --recompute-activations --transformer-impl local   # --bf16
    --lr 6.0e-5 --clip-grad 1.0 --train-iters 500000
    --some-new-switch
)
torchrun ${LAUNCHER[@]} pretrain_gpt.py ${MODEL[@]} ${TRAINING[@]} \
    --tensor-model-parallel-size ${TP} --pipeline-model-parallel-size $PP \
    --num-layers-per-virtual-pipeline-stage 4 --no-overlap-p2p-communication --sequence-parallel \
    --data-path $DATA_PATH
