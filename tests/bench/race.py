"""wxsim against another program on the same machine, in turns: the only comparison that a shared machine allows.

    python tests/bench/race.py --rival "python torch_cpu.py {config} eager,compile" [--wxsim target/release/wxsim]
                               [--config europe,europe7] [--pairs 5] [--threads 2]

The rival prints one JSON object a line for each of its variants, with `train_ms` and `infer_b1_ms`; the faster variant
counts, for each figure by itself. Prints every pair and the median of the ratios wxsim / rival (below 1: wxsim is
faster). Uses the standard library only.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys

CONFIGS = "europe,europe7,wb5.6-small,wb5.6-patch2"


def rows(command, environment):
    """The JSON lines that a command prints, and its peak memory [MiB]."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{shlex.join(command)} ended with {process.returncode}")
    found = []
    for line in output.splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            print(f"  not a figure: {line[:120]}", file=sys.stderr)
    if not found:
        sys.exit(f"{shlex.join(command)} printed no figure")
    return found, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rival", required=True, help="command line; {config} is replaced by the configuration's name")
    parser.add_argument("--wxsim", default="target/release/wxsim")
    parser.add_argument("--config", default=CONFIGS)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    environment = dict(os.environ, THREADS=str(arguments.threads))
    for config in arguments.config.split(","):
        ours_command = [arguments.wxsim, "bench", "--json", "--config", config]
        ours_command += ["--repeats", str(arguments.repeats), "--threads", str(arguments.threads)]
        rival_command = [word.replace("{config}", config) for word in shlex.split(arguments.rival)]
        ratios = {"training step": [], "forecast": []}
        times = {what: ([], []) for what in ratios}
        for pair in range(arguments.pairs):
            (ours,), our_memory = rows(ours_command, environment)
            rivals, rival_memory = rows(rival_command, environment)
            figures = {
                "training step": (ours["train_milliseconds"]["median"], min(r["train_ms"] for r in rivals)),
                "forecast": (ours["rollout_milliseconds"]["median"], min(r["infer_b1_ms"] for r in rivals)),
            }
            for what, (mine, theirs) in figures.items():
                ratios[what].append(mine / theirs)
                times[what][0].append(mine)
                times[what][1].append(theirs)
                print(f"{config:13} pair {pair + 1} {what:13} {mine:9.2f} ms against {theirs:9.2f} ms: {mine / theirs:.3f}")
            print(f"{config:13} pair {pair + 1} peak memory   {our_memory:9.0f} MiB against {rival_memory:7.0f} MiB", flush=True)
        for what in ratios:
            mine, theirs = (statistics.median(side) for side in times[what])
            ratio = statistics.median(ratios[what])
            print(f"{config:13} median {what:13} {mine:9.2f} ms against {theirs:9.2f} ms: {ratio:.3f}", flush=True)


if __name__ == "__main__":
    main()
