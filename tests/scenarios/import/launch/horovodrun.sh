horovodrun -np 32 -H s1:8,s2:8,s3:8,s4:8 --verbose --fusion-threshold-mb 64 python train.py
