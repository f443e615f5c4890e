deepspeed --hostfile=hosts.txt --include="node-a:0,1,2,3@node-b:0,1,2,3" train.py
