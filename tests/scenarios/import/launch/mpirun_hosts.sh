#!/bin/sh
HOSTS=worker-0:8,worker-1:8,worker-2:8,worker-3:8
/opt/openmpi/bin/mpirun --allow-run-as-root -np 16 -H $HOSTS \
  --mca plm_rsh_no_tree_spawn 1 -mca btl_tcp_if_include eth0 \
  -x NCCL_DEBUG=INFO -x LD_LIBRARY_PATH --bind-to none \
  ./build/all_reduce_perf -b 8 -e 8G -f 2 -n 20 -g 1
