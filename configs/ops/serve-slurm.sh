#!/bin/bash
#SBATCH --job-name=wxsim-serve
#SBATCH --gpus=1
#SBATCH --time=01:00:00
#SBATCH --signal=B:TERM@60
# One pass over what has arrived, for a cluster without long-lived services. Submit it by cron or scrontab:
#
#   0 */6 * * * sbatch configs/ops/serve-slurm.sh serve.toml
#
# A pass that the time limit ends loses nothing: the next one goes on. Two at once are refused by the lock of serve.state.
set -euo pipefail
exec srun wxsim serve "${1:-serve.toml}" --once
