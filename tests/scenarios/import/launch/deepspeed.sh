deepspeed --num_nodes 2 --num_gpus=4 --master_port 29500 train.py --deepspeed ds_config.json
