#!/usr/bin/env bash
# Slurm: Ray over the whole allocation, one driver, taken down at the end.
# Copy this file, change every EDIT_ word and hand it in with what `raysweep` is to do:
#
#     sbatch my-slurm.sh run transfer_phase_diagram --executor ray
#
# A job that ran into its time limit or was taken away is handed in again with the same words: it continues.
#
#SBATCH --job-name=raysweep
#SBATCH --output=raysweep-%j.log
#SBATCH --nodes=2                 # EDIT
#SBATCH --ntasks-per-node=1       # one Ray a node; Ray hands out the cores and GPUs itself
#SBATCH --cpus-per-task=16        # EDIT: the cores of a node
#SBATCH --gpus-per-node=0         # EDIT
#SBATCH --time=12:00:00           # EDIT
#SBATCH --partition=EDIT_PARTITION

set -euo pipefail

version=0.1.0
environment=EDIT_ENVIRONMENT      # the Python environment with raysweep, on a file system that every node sees
storage=EDIT_STORAGE              # the sweeps: a folder on a file system that every node sees (rows travel as files)

# module load python/3.11         # EDIT: what your site wants before its Python works
export PATH="$environment/bin:$PATH"

if [ "$#" -eq 0 ]; then
    echo "usage: sbatch slurm.sh run SPACE [OPTION]..." >&2
    exit 2
fi
installed=$(python -c 'import raysweep; print(raysweep.__version__)')
if [ "$installed" != "$version" ]; then
    echo "$environment has raysweep $installed, this file is of $version: use files of one version" >&2
    exit 2
fi
mkdir -p "$storage"

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address=$(srun --nodes=1 --ntasks=1 --nodelist="$head" hostname --ip-address | awk '{print $1}')
port=$((20000 + SLURM_JOB_ID % 10000))  # two jobs may share a node

# Nodes are shared with strangers: without the token, whoever reaches the port could run programs as you.
RAY_AUTH_TOKEN=$(python -c 'import secrets; print(secrets.token_hex(32))')
export RAY_AUTH_TOKEN RAY_AUTH_MODE=token
export RAY_TMPDIR="/tmp/raysweep-$SLURM_JOB_ID" RAY_USAGE_STATS_ENABLED=0
srun mkdir -p "$RAY_TMPDIR"
trap 'srun rm -rf "$RAY_TMPDIR"' EXIT

# On every node: start Ray; on the head, once all nodes are there, run the driver; at its end stop Ray everywhere.
# The mirror of a running sweep is a SQLite file and has one writer, the driver; keep it off parallel file systems whose
# locks do not work by adding --tracking-uri none here and running `raysweep sync SWEEP` afterwards.
srun --kill-on-bad-exit=1 ray symmetric-run \
    --address "$address:$port" \
    --min-nodes "$SLURM_JOB_NUM_NODES" \
    --num-cpus "${SLURM_CPUS_PER_TASK:-1}" \
    --num-gpus "${SLURM_GPUS_ON_NODE:-0}" \
    -- raysweep "$@" --storage "$storage"
