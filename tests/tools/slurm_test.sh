#!/bin/bash
# Runs a sweep as a job array on a Slurm of one node, from Debian's packages, started here and stopped again: is
# what its tasks wrote, put together, the whole grid?
#
#   tests/tools/slurm_test.sh build/release/trainyard
#
# Exit code 0: it is; 1: not; 77: skipped, because Slurm is not installed (apt install slurmctld slurmd slurm-client
# munge) or cannot start here.
set -euo pipefail

trainyard=$(realpath "$1")
tree=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
work=$(mktemp -d)
pids=()
stop() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap stop EXIT

skip() {
  {
    echo "***********************************************************************"
    echo "* SKIPPED: the job array was NOT run under Slurm."
    echo "* Why: $1"
    echo "***********************************************************************"
  } >&2
  exit 77
}

for program in slurmctld slurmd sbatch munged; do
  PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || skip "$program is not installed"
done
[[ $(id -u) -eq 0 ]] || skip "a node daemon wants to be root"
PATH=$PATH:/usr/sbin

# Authentication of our own: a key, a socket and a daemon in the folder.
head -c 1024 /dev/urandom >"$work/munge.key"
chmod 600 "$work/munge.key"
chmod 755 "$work"
munged --foreground --force --key-file="$work/munge.key" --socket="$work/munge.socket" --pid-file="$work/munge.pid" \
  --log-file="$work/munge.log" --seed-file="$work/munge.seed" >/dev/null 2>&1 &
pids+=($!)

host=$(hostname -s)
port=$((20000 + RANDOM % 20000))
cat >"$work/slurm.conf" <<EOF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
CredType=cred/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/linear
MpiDefault=none
ReturnToService=2
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/ctld.pid
SlurmdPidFile=$work/d.pid
SlurmctldLogFile=$work/ctld.log
SlurmdLogFile=$work/d.log
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=10 State=UP
EOF
mkdir "$work/state" "$work/spool"
export SLURM_CONF=$work/slurm.conf
slurmctld -D >/dev/null 2>&1 &
pids+=($!)
slurmd -D >/dev/null 2>&1 &
pids+=($!)
for _ in $(seq 60); do
  sinfo -h -o %t 2>/dev/null | grep -q idle && break
  sleep 0.5
done
sinfo -h -o %t 2>/dev/null | grep -q idle ||
  skip "Slurm does not come up here: $(tail -n 1 "$work/d.log" "$work/ctld.log" 2>/dev/null | tr '\n' ' ')"

cd "$work"
ln -s "$tree/scenarios" scenarios
grid=(scenarios/first/two_gpus.json --over "training.global_batch_size=4,8,12,16")
TRAINYARD=$trainyard TRAINYARD_DATA=$tree sbatch --wait --quiet --array=1-2 --output="$work/task.%a.log" \
  "$tree/tools/sweep_array.slurm" "${grid[@]}" || { cat "$work"/task.*.log >&2; exit 1; }
cat sweep.*.jsonl >sweep.jsonl
found=$("$trainyard" sweep "${grid[@]}" --journal sweep.jsonl | tail -n +1)
[[ $(wc -l <sweep.1.jsonl) -eq 2 && $(wc -l <sweep.2.jsonl) -eq 2 && $(wc -l <sweep.jsonl) -eq 4 ]] ||
  { echo "the parts are not the grid:" >&2; wc -l sweep*.jsonl >&2; exit 1; }
grep -q "4 runs: 4 fit" <<<"$found" || { echo "$found" >&2; exit 1; }
echo "two tasks of a Slurm job array ran the grid of four; their journals together are the whole"
