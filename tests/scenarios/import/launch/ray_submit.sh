ray job submit --address http://head:8265 --no-wait -- python ray_train.py
