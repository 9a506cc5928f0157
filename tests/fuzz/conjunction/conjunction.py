#!/usr/bin/env python3
"""Measures how many cases it takes to find a bug that needs four things at once.

Compares four ways, each from an empty corpus, for several seeds:
  drawn    only drawn cases: attnfuzz check
  guided   mutations and crossovers of cases with new coverage or situations, the rarest
           first: fuzz_conjunction_loop
  fuzzed   the same mutations, coverage and situations under libFuzzer: fuzz_fa1
  bytes    libFuzzer's bytes read into a case, guided by the same coverage and situations:
           fuzz_conjunction_bytes

Exit status 1: the guided way did not find the bug for every seed.
"""
import argparse
import concurrent.futures
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile


def last_number(pattern, text):
    found = re.findall(pattern, text)
    return int(found[-1]) if found else None


def drawn(options, seed, folder):
    done = subprocess.run(
        [options.bin / "attnfuzz", "check", options.library, "--build", "coverage", "--property", "reference",
         "--jobs", "1", "--seed", str(seed), "--cases", str(options.most), "--reduce-seconds", "0.01",
         "--work", str(options.work), "--out", folder], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(done.stdout + done.stderr)
    index = last_number(r"found in case (\d+)", done.stdout)
    return None if index is None else index + 1


def fuzzed(program):
    def cases(options, seed, folder):
        done = subprocess.run(
            [options.bin / program, f"--kernel={options.library}", "--build=coverage", f"-seed={seed}",
             f"-runs={options.most}", "-print_final_stats=1", f"-artifact_prefix={folder}/"],
            capture_output=True, text=True, check=False, cwd=folder)
        if done.returncode == 0:
            return None
        if done.returncode != 77:
            sys.exit(done.stdout + done.stderr)
        return last_number(r"stat::number_of_executed_units: *(\d+)", done.stderr)
    return cases


def guided(options, seed, folder):
    done = subprocess.run(
        [options.bin / "fuzz_conjunction_loop", str(seed), str(options.most), f"--kernel={options.library}",
         "--build=coverage"], capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode not in (0, 1):
        sys.exit(done.stdout + done.stderr)
    return last_number(r"cases: (\d+)", done.stdout)


WAYS = {"drawn": drawn, "guided": guided, "fuzzed": fuzzed("fuzz_fa1"), "bytes": fuzzed("fuzz_conjunction_bytes")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path, help="folder of attnfuzz and the fuzz targets")
    parser.add_argument("library", help="libattn_conjunction_cpu-coverage.so:conjunction, or :conjunction-window")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--most", type=int, default=20000, help="limit of cases for each way and seed")
    parser.add_argument("--work", type=int, default=9_000_000,
                        help="of drawn cases: with less, none has three heads, three query tiles and two of keys")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--jobs", type=int, default=1, help="searches at a time")
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    ways = options.ways.split(",")
    options.library = str(pathlib.Path(options.library).resolve())

    def search(way, seed):
        with tempfile.TemporaryDirectory() as folder:
            found = WAYS[way](options, seed, folder)
        print(f"{way}, seed {seed}: {found or 'not found'}", file=sys.stderr, flush=True)
        return found

    rows = {way: [] for way in ways}
    print("seed " + " ".join(f"{way:>9}" for way in ways))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        seeds = range(1, options.seeds + 1)
        searches = {seed: [pool.submit(search, way, seed) for way in ways] for seed in seeds}
        for seed in seeds:
            for way, found in zip(ways, searches[seed]):
                rows[way].append(found.result())
            print(f"{seed:4} " + " ".join(f"{rows[way][-1] or '-':>9}" for way in ways), flush=True)
    print("found " + " ".join(f"{way} {sum(n is not None for n in rows[way])} of {options.seeds}" for way in ways))
    # A search without success counts as the limit.
    print("median of cases " + " ".join(
        f"{way} {statistics.median([n or options.most for n in rows[way]]):.0f}" for way in ways))
    return int(any(n is None for n in rows.get("guided", [])))


if __name__ == "__main__":
    sys.exit(main())
