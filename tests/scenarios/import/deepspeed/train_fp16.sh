deepspeed --num_gpus 8 train.py --deepspeed zero2_offload.json \
    --model_name_or_path meta-llama/Llama-2-7b-hf --fp16 \
    --max_seq_length 2048 --gradient_checkpointing --output_dir out
