accelerate launch --config_file fsdp.yaml train.py \
    --model_name_or_path meta-llama/Llama-3.1-8B-Instruct \
    --per_device_train_batch_size 1 --gradient_accumulation_steps 4 \
    --max_length 8192 --bf16 --attn_implementation flash_attention_2 \
    --learning_rate 1e-5 --output_dir out
