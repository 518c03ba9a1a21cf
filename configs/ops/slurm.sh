#!/bin/sh
# Trains on two nodes of eight GPUs: sbatch configs/ops/slurm.sh era5.toml
# Submitted again, it goes on at the last checkpoint.
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=8
#SBATCH --signal=TERM@120
set -e
run=runs/$(basename "$1" .toml)
[ -d "$run/checkpoints" ] && resume=--resume
exec srun wxsim train "$1" $resume --run "$run" --precision bf16 --threads "$SLURM_CPUS_PER_TASK"
