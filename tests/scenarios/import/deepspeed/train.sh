#!/bin/bash
# Fine-tunes Llama 3 8B on two nodes of eight GPUs.
MODEL=meta-llama/Meta-Llama-3-8B
deepspeed --num_nodes 2 --num_gpus 8 --hostfile hosts.txt train.py \
    --deepspeed zero3.json \
    --model_name_or_path $MODEL \
    --per_device_train_batch_size 2 --gradient_accumulation_steps 4 \
    --max_seq_length 4096 --bf16 True --gradient_checkpointing True \
    --attn_implementation flash_attention_2 \
    --learning_rate 2e-5 --warmup_ratio 0.03 --num_train_epochs 1 \
    --output_dir out --logging_steps 1 --a_new_flag 3
