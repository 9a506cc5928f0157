#!/usr/bin/env bash
# Tests and times an unpacked bundle on a machine with an NVIDIA GPU, without a compiler.
#
#   ./run-bundle.sh                    # all steps
#   ./run-bundle.sh check calibrate    # some of them, in this order
#
#   tests      every test program, several at a time; skipped tests are counted
#   check      the same drawn cases on cpu and on cuda: none may fail, and both
#              must have drawn the same (CHECK_CASES, CHECK_SEED)
#   plugins    the kernels in plugins/, by their paths, on the back end each is
#              built for; their findings to results/found-plugins (CHECK_CASES)
#   builds     drawn cases of our kernels in every build of the executor: none may
#              fail (BUILD_CASES, BUILDS)
#   calibrate  the GPU's instructions: results/calibration.json
#   sanitize   compute-sanitizer's four tools over the corpus; each tool must first
#              find a planted fault (SANITIZE_TOOLS)
#   bench      attnfuzz bench on both back ends: results/bench.json
#   kernels    fuzz/bench/bench.py beside PyTorch: results/kernels.json
#   torch      fuzz/bench/plain_loop.py over PyTorch's back ends: results/torch.json
#
# Environment variables: OUT (./out) gets a log of each step, and results.tar.gz. TESTS_SECONDS,
# CHECK_SECONDS, ... limit each step; a step that takes longer is stopped and fails. PYTHON
# (python3) is an interpreter with torch. Test programs look for workers and libraries in their
# build folder. If it does not exist, a link to this folder takes its place while they run.
#
# Exit status: 0 if every step passed, else 1.
# shellcheck disable=SC2016,SC2317  # steps are called by name; one script within runs per test
set -u

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${OUT:-$PWD/out}
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
results=$here/results
mkdir -p "$results"
cd "$here" || exit 1
cores=$(nproc)
: "${PYTHON:=python3}" "${CHECK_CASES:=2000}" "${CHECK_SEED:=1}"
: "${SANITIZE_TOOLS:=memcheck racecheck initcheck synccheck}"
: "${BUILD_CASES:=2000}" "${BUILDS:=$(cat own-builds)}" "${BUILDS_SECONDS:=560}"
: "${TESTS_SECONDS:=240}" "${CHECK_SECONDS:=150}" "${PLUGINS_SECONDS:=120}" "${CALIBRATE_SECONDS:=60}" "${SANITIZE_SECONDS:=480}"
: "${BENCH_SECONDS:=120}" "${KERNELS_SECONDS:=420}" "${TORCH_SECONDS:=60}"
export PYTHONUNBUFFERED=1

# Each step writes its log to stdout, and a word for the summary to descriptor 3.

run_tests() {
  local build link="" made=() failed=0 passed=0 skipped=0 name log
  build=$(cat build-folder)
  if [ ! -e "$build" ]; then
    local parent
    parent=$(dirname "$build")
    while [ ! -e "$parent" ]; do
      made+=("$parent")
      parent=$(dirname "$parent")
    done
    if mkdir -p "$(dirname "$build")" 2>/dev/null && ln -s "$here" "$build" 2>/dev/null; then
      link=$build
    else
      echo "cannot put a link at $build: tests that load libraries from there will fail"
    fi
  fi
  mkdir -p results/tests
  rm -f results/tests/*
  printf '%s\n' bin/*_test | xargs -P $((cores > 8 ? 8 : cores)) -I{} bash -c '
    log=results/tests/$(basename "$2")
    timeout -k 5 "$1" "$2" >"$log.log" 2>&1 </dev/null
    echo $? >"$log.status"' bash "$TESTS_SECONDS" {}
  for log in results/tests/*.log; do
    name=$(basename "$log" .log)
    local status p s f
    status=$(cat "results/tests/$name.status")
    p=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$log" | tail -1)
    s=$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) test.*/\1/p' "$log" | tail -1)
    f=$(sed -n 's/^\[  FAILED  \] \([0-9]*\) test.*/\1/p' "$log" | tail -1)
    passed=$((passed + ${p:-0})) skipped=$((skipped + ${s:-0}))
    if [ "$status" -eq 0 ]; then
      printf '%-28s %s passed, %s skipped\n' "$name" "${p:-0}" "${s:-0}"
    else
      printf '%-28s FAILED (exit status %s): %s passed, %s skipped, %s failed\n' "$name" "$status" "${p:-0}" "${s:-0}" "${f:-?}"
      failed=$((failed + 1))
      grep -v -E '^\[( RUN     |       OK|-------|=======)' "$log" | sed 's/^/    /' | tail -60
    fi
    # gtest prints the reason for a skip in the line after the place.
    grep -h -A1 ': Skipped$' "$log" | grep -v -E ': Skipped$|^--' | sort | uniq -c | sed 's/^/    skipped: /' | head -10
  done
  if [ -n "$link" ]; then rm -f "$link"; fi
  local folder
  for folder in "${made[@]+"${made[@]}"}"; do rmdir "$folder" 2>/dev/null; done
  echo "$passed passed, $skipped skipped, $failed programs failed" >&3
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

run_check() {
  local backend status=0 jobs
  local -A digest
  for backend in cpu cuda; do
    # Each job on the GPU has its own context, so there are few.
    jobs=$cores
    [ "$backend" = cuda ] && [ "$cores" -gt 4 ] && jobs=4
    bin/attnfuzz check $(cat own-kernels) --backend "$backend" --seed "$CHECK_SEED" --cases "$CHECK_CASES" --jobs "$jobs" \
      --out "results/found-$backend" --json "results/check-$backend.jsonl" || status=1
    digest[$backend]=$(grep -o '"digest": *"[0-9a-f]*"' "results/check-$backend.jsonl" | sed 's/.*"\([0-9a-f]*\)"$/\1/' | tr '\n' ' ')
    echo
  done
  echo "digests cpu:  ${digest[cpu]:-none}"
  echo "digests cuda: ${digest[cuda]:-none}"
  if [ -z "${digest[cpu]:-}" ] || [ "${digest[cpu]:-}" != "${digest[cuda]:-}" ]; then
    echo "the two back ends were not given the same cases"
    echo "digests differ" >&3
    return 1
  fi
  echo "$([ "$status" -eq 0 ] && echo 'no failure' || echo 'FAILURES, see the log'), digests agree" >&3
  return "$status"
}

run_plugins() {
  local library status=0 held=0 all=0
  for library in ./plugins/*.so; do
    all=$((all + 1))
    if bin/attnfuzz check "$library" --seed "$CHECK_SEED" --cases "$CHECK_CASES" --jobs $((cores > 4 ? 4 : cores)) \
      --out results/found-plugins --json "results/plugin-$(basename "$library" .so).jsonl"; then
      held=$((held + 1))
    else
      status=1
    fi
    echo
  done
  echo "$held of $all without a finding in $CHECK_CASES cases each" >&3
  return "$status"
}

run_calibrate() {
  local status
  bin/attnfuzz calibrate --backend cuda --out results/calibration.json --json results/calibrate.json
  status=$?
  [ -e results/calibration.json ] && cat results/calibration.json
  echo "$(grep -o '"ex2_approx": *[0-9.]*' results/calibration.json 2>/dev/null | tail -1), $(
    grep -o '"mma_block": *[0-9]*' results/calibration.json 2>/dev/null)" >&3
  return "$status"
}

# sanitize_one TOOL KERNEL NAME SECONDS CASE...: sets `replayed` and `errors`.
sanitize_one() {
  local tool=$1 kernel=$2 log=results/sanitize-$1-$3.log limit=$4
  shift 4
  timeout -k 5 "$limit" compute-sanitizer --tool "$tool" --target-processes all --require-cuda-init=no --log-file "$log" \
    bin/attnfuzz replay "$@" --backend cuda --kernel "$kernel" --watchdog 300 >"${log/sanitize-/replay-}" 2>&1
  replayed=$?
  # A worker that is ended by a signal may print no summary, so messages count too.
  local messages='Invalid|Misaligned|Uninitialized|Barrier error|(Error|Warning): .*(Race|hazard)|Program hit'
  errors=$(
    { grep -c -E "^=+ +($messages)" "$log"
      sed -n -E 's/.*(ERROR|RACECHECK) SUMMARY: ([0-9]+) (error|hazard).*/\2/p' "$log"; } 2>/dev/null | sort -n | tail -1)
  errors=${errors:-0}
}

run_sanitize() {
  local tool kernel replayed errors cases limit status=0 words=""
  if ! command -v compute-sanitizer >/dev/null; then
    echo "compute-sanitizer is not installed"
    echo "no compute-sanitizer" >&3
    return 1
  fi
  local seeds=(corpus/seeds/*.json)
  limit=$((SANITIZE_SECONDS / (3 * $(wc -w <<<"$SANITIZE_TOOLS"))))
  for tool in $SANITIZE_TOOLS; do
    echo "== $tool"
    sanitize_one "$tool" ./tests/e2e/sanitizer_seeded_bug.so seeded-bug "$limit" corpus/seeds/history-s4.case.json
    echo "a planted fault: $errors errors"
    if [ "$errors" -eq 0 ]; then
      echo "$tool sees no fault where one is planted: what it says of other kernels means nothing"
      head -40 "results/sanitize-$tool-seeded-bug.log" "results/replay-$tool-seeded-bug.log"
      words="$words $tool/BLIND"
      status=1
    fi
    for kernel in $(cat forward-kernels); do
      sanitize_one "$tool" "$kernel" "$kernel" "$limit" "${seeds[@]}"
      cases=$(grep -c '^corpus/' "results/replay-$tool-$kernel.log")
      echo "$kernel: exit status $replayed, $errors errors, $cases of ${#seeds[@]} cases replayed"
      if [ "$replayed" -ne 0 ] || [ "$errors" -ne 0 ] || [ "$cases" -ne ${#seeds[@]} ]; then
        status=1
        tail -40 "results/replay-$tool-$kernel.log"
        head -80 "results/sanitize-$tool-$kernel.log"
      fi
      words="$words $tool/$kernel $errors"
    done
  done
  echo "errors:$words" >&3
  return "$status"
}

run_bench() {
  bin/attnfuzz bench --backend cpu --backend cuda --json results/bench.json | tee results/bench.txt
  local status=${PIPESTATUS[0]}
  grep -h 'worst ratio' results/bench.txt | sed 's/^ *//' >&3
  return "$status"
}

run_kernels() {
  "$PYTHON" fuzz/bench/bench.py --lib lib --seconds "$((KERNELS_SECONDS - 40))" --json results/kernels.json |
    tee results/kernels.txt
  local status=${PIPESTATUS[0]}
  echo "$(grep -c -E '^(prefill|decode)' results/kernels.txt) problems timed" >&3
  return "$status"
}

run_builds() {
  local build_kind kernel status=0 held=0
  for build_kind in $BUILDS; do
    for kernel in $(cat own-kernels); do
      if bin/attnfuzz check "$kernel" --build "$build_kind" --cases "$BUILD_CASES" --jobs "$cores" \
        --out "results/found-$build_kind" --json "results/build-$build_kind-$kernel.jsonl"; then
        held=$((held + 1))
      else
        status=1
      fi
    done
  done
  echo "$held of $(($(wc -w <<<"$BUILDS") * $(wc -w <own-kernels))) without a finding in $BUILD_CASES cases each" >&3
  return "$status"
}

run_torch() {
  "$PYTHON" fuzz/bench/plain_loop.py --seconds $((TORCH_SECONDS / 6)) --json results/torch.json \
    python/attnfuzz/targets/torch_sdpa.py:{flash,efficient,cudnn,math_} | tee results/torch.txt
  local status=${PIPESTATUS[0]}
  grep 'cases/s' results/torch.txt | awk '{printf "%s %s/s  ", $1, $2} END {print ""}' >&3
  return "$status"
}

if [ "${1:-}" = --step ]; then
  "run_$2"
  exit $?
fi

steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(tests check plugins builds calibrate sanitize bench kernels torch)
for step in "${steps[@]}"; do
  if ! declare -F "run_$step" >/dev/null; then
    echo "run-bundle.sh: there is no step '$step'; there are: tests check plugins builds calibrate sanitize bench kernels torch" >&2
    exit 1
  fi
done

summary=""
overall=0
for step in "${steps[@]}"; do
  budget_name=${step^^}_SECONDS
  budget=${!budget_name}
  # TESTS_SECONDS limits each test program; the whole step gets twice as long.
  [ "$step" = tests ] && budget=$((budget * 2))
  echo "=== $step (at most $budget s)"
  start=$SECONDS
  note=$results/note
  : >"$note"
  timeout -k 10 "$budget" bash "$here/run-bundle.sh" --step "$step" >"$out/$step.log" 2>&1 3>"$note"
  status=$?
  case $status in
    0) verdict=passed ;;
    124 | 137) verdict="TIME OUT" ;;
    *) verdict=FAILED ;;
  esac
  [ "$status" -eq 0 ] || overall=1
  tail -"$([ "$verdict" = passed ] && echo "${TAIL_LINES:-12}" || echo 40)" "$out/$step.log"
  summary+=$(printf '%-10s %-9s %5d s  %s' "$step" "$verdict" $((SECONDS - start)) "$(tr '\n' ' ' <"$note")")$'\n'
done
rm -f "$results/note"
tar czf "$out/results.tar.gz" -C "$here" results

echo
echo "=== summary ($(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -1))"
printf '%s' "$summary"
exit $overall
