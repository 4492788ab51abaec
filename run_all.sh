#!/usr/bin/env bash
# The whole course in one command: installs what is missing, builds, runs every step, draws.
set -euo pipefail
started_in=$PWD
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"

usage() {
  cat <<'END'
./run_all.sh [--quick] [--steps LIST] [--device cpu|gpu|emulator] [--tune]
    Builds the course, runs its steps in order, checks every result, and draws the figures.
    Everything measured goes to results/<machine>-<date>/.
      --quick            smaller sizes and fewer repeats
      --steps LIST       only these steps: 09-13, or 03,09-11
      --device DEVICE    only what runs on this device (default: all that this machine can)
      --tune             on a GPU, also let the steps that have candidates choose their tiles

./run_all.sh --counters [--quick] [--steps LIST]
    Reads the GPU's counters with NVIDIA Nsight Compute (ncu) while each row of the GPU steps runs
    once, with --quick the fastest row of each, and adds them to results/<machine>-<date>/.

./run_all.sh --test                 builds with warnings as errors and runs the whole test suite
./run_all.sh --diff STEP            a step's kernel against the kernel of the step before it
./run_all.sh --plots-only RESULTS   draws the figures of a directory of results again
./run_all.sh --help                 this text

Exit status: 0 when everything ran and was proved right, 1 when something was not, 2 for a wrong
command line, 3 when something has to be installed or allowed first, 130 when interrupted.
END
}

# ---------------------------------------------------------------------------------- small tools

say() { printf '%s\n' "$*"; }
heading() { printf '\n== %s\n' "$*"; }
die() { printf 'run_all.sh: %s\n' "$2" >&2; exit "$1"; }
have() { command -v "$1" >/dev/null 2>&1; }
minutes() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }
file_name() { printf '%s' "$1" | tr -cs '[:alnum:].\n' '-' | tr '[:upper:]' '[:lower:]'; }
cores() { nproc 2>/dev/null || echo 2; }

# The name of the first GPU; fails where none answers.
gpu_name() { have nvidia-smi && nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | sed -n 1p; }

machine_name() {
  local name
  name=$(gpu_name) || name=$(grep -m 1 '^model name' /proc/cpuinfo | sed 's/.*: *//') || name=''
  file_name "${name:-$(uname -m)}" | sed 's/-*$//'
}

# The python that has matplotlib: one from pyenv or conda on the PATH often lacks what apt installed.
python_for_plots() {
  local python
  for python in python3 /usr/bin/python3; do
    "$python" -c 'import matplotlib' 2>/dev/null && { echo "$python"; return; }
  done
  return 1
}

# ------------------------------------------------------------------------- what is missing here

have_header() { g++ -E -x c++ - >/dev/null 2>&1 <<<"#include <$1>"; }
have_library() { PATH=$PATH:/sbin:/usr/sbin ldconfig -p | grep "$1" >/dev/null; }

# Prints the Debian packages that this machine still needs, one a line.
missing_packages() {
  have g++ || echo g++
  have cmake || echo cmake
  have ninja || echo ninja-build
  have git || echo git
  have addr2line || echo binutils
  have_header fmt/core.h || echo libfmt-dev
  have_header CLI/CLI.hpp || echo libcli11-dev
  have_header benchmark/benchmark.h || echo libbenchmark-dev
  have_header gtest/gtest.h || echo libgtest-dev
  have_header nlohmann/json.hpp || echo nlohmann-json3-dev
  have_header boost/context/fiber.hpp || echo libboost-context-dev
  have_library libopenblas.so.0 || echo libopenblas0-pthread
  [ "$mode" = counters ] || python_for_plots >/dev/null || echo python3-matplotlib
  if [ "$mode" = test ]; then
    have clang-format-14 || echo clang-format-14
    have clang-tidy-14 || echo clang-tidy-14
    # clang-tidy cannot read g++'s omp.h.
    compgen -G '/usr/lib/llvm-14/lib/clang/*/include/omp.h' >/dev/null || echo libomp-14-dev
  fi
}

install_missing() {
  local packages as_root=()
  mapfile -t packages < <(missing_packages)
  ((${#packages[@]})) || return 0
  have apt-get || die 3 "please install what these Debian packages hold: ${packages[*]}"
  if ((EUID != 0)); then
    sudo -n true 2>/dev/null ||
      die 3 "please type: sudo apt-get update && sudo apt-get install -y ${packages[*]}"
    as_root=(sudo -n)
  fi
  heading "Installing ${packages[*]}"
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -yq --no-install-recommends "${packages[@]}"
}

# ---------------------------------------------------------------------------------------- build

# build PRESET TARGET
build() {
  heading "Configuring"
  cmake --preset "$1"
  heading "Building"
  cmake --build --preset "$1" --target "$2" --parallel "$(cores)"
}

# ---------------------------------------------------------------------------------------- steps

step_number() { local stem=${1##*/}; echo $((10#${stem%%_*})); }

# Prints the source files of the steps that --steps asks for, in course order.
selected_sources() {
  local part first last source
  for source in steps/[0-9][0-9]_*.c*; do
    for part in ${steps//,/ }; do
      first=${part%-*} last=${part#*-}
      if (($(step_number "$source") >= 10#$first && $(step_number "$source") <= 10#$last)); then
        echo "$source"
        break
      fi
    done
  done
}

# built_for STEP DEVICE: was the step built for the device? CMake writes down what it built.
built_for() { [[ ", $(sed -n "s/^$1: //p" build/steps.txt)," = *", $2,"* ]]; }
wanted() { [[ ! $device || $device = "$1" ]]; }

# Prints the runs of a CPU step with times. Those that show what padding, packing and threads do run
# again: 06 with gaps between rows, at many sizes and on 2, 4, .. threads.
plan_cpu() {
  local threads
  echo "$1 cpu $1"
  case $1 in
    06_*)
      echo "$1 padded $1.pad16"
      echo "$1 sizes $1.sizes"
      for ((threads = 2; threads <= $(cores); threads *= 2)); do echo "$1 $threads-threads $1.t$threads"; done
      ;;
  esac
}

# Prints the runs of a GPU step on the GPU: its rows, and with --tune the tiles that it chooses from.
plan_gpu() {
  echo "$1 gpu $1"
  [[ ! $tune || $("build/steps/$1" --list) != *"candidates of --tune"* ]] || echo "$1 tuning $1.tune"
}

# Prints the CPU libraries that are installed, as --peer takes them.
peers() {
  local peer found=()
  for peer in openblas blis mkl; do
    ! "build/steps/$1" --check-only --size 1 --peer "$peer" >/dev/null 2>&1 || found+=("$peer")
  done
  local IFS=,
  echo "${found[*]:-none}"
}

# Prints what is to be run, a line each: step, device or variant, and the name of the result.
# The GPU times and the emulator counts, so a GPU step is worth a run on both. So is a CPU step:
# timed as it is, and once more, smaller, through the cache simulation.
plan() {
  local source step
  while read -r source; do
    step=$(basename "${source%.*}")
    if [ "${source##*.}" = cu ]; then
      [ ! "$gpu" ] || ! wanted gpu || ! built_for "$step" gpu || plan_gpu "$step"
      ! wanted emulator || ! built_for "$step" emulator || echo "$step emulator $step.counts"
    else
      ! wanted cpu || ! built_for "$step" cpu || plan_cpu "$step"
      ! wanted emulator || ! built_for "$step" emulator || echo "$step simulation $step.counts"
    fi
  done < <(selected_sources)
}

# The rows of a step that keep all of its parts and the blocks of the model.
whole='^(?!without|KC=)'

# step_flags DEVICE STEP: prints the flags that a step is run with on a device. 1000 stands beside
# 1024 to show what a power of two does to a cache; 127 and 4095 do not divide into tiles.
step_flags() {
  case $1-$quick in
    padded-) echo --pad 16 --kernel "$whole" --sizes 256,512,1000,1024,1040 --repeats 3 ;;
    padded-yes) echo --pad 16 --kernel "$whole" --sizes 128,256 --repeats 2 ;;
    sizes-) echo --kernel "$whole" --peer "$(peers "$2")" --repeats 5 \
      --shapes 16:128:4,33,65,127,129,192,255,256,257,384,500,511,512,513,1000,1023,1024,1025,2047,2048,2049,4096x64x4096,64x4096x4096,4096x4096x64,17x1000x1000,1000x17x1000,1000x1000x17 ;;
    sizes-yes) echo --kernel "$whole" --peer "$(peers "$2")" --sizes 127,128,129,256 --repeats 2 ;;
    *-threads-) echo --threads "${1%-*}" --kernel "$whole" --peer "$(peers "$2")" --sizes 1024,2048 ;;
    *-threads-yes) echo --threads "${1%-*}" --kernel "$whole" --peer "$(peers "$2")" --sizes 256 --repeats 2 ;;
    cpu-) echo --device cpu --sizes 256,512,1000,1024,1040 --repeats 3 ;;
    cpu-yes) echo --device cpu --sizes 256 --repeats 2 ;;
    gpu-) echo --device gpu --sizes 256,512,1024,2048,4096,4095 ;;
    tuning-) echo --device gpu --tune "$out/$2.tuned.json" --repeats 5 ;;
    tuning-yes) echo --device gpu --tune "$out/$2.tuned.json" --sizes 1024 --repeats 3 ;;
    gpu-yes) echo --device gpu --sizes 1024 --repeats 3 ;;
    emulator-) echo --device emulator --sizes 127,256 --repeats 1 ;;
    emulator-yes) echo --device emulator --sizes 128 --repeats 1 ;;
    simulation-) echo --device cpu --count --kernel "$whole" --sizes 100,128,250,256,500,512,520 --repeats 1 --peer none ;;
    simulation-yes) echo --device cpu --count --sizes 64 --repeats 1 --peer none ;;
  esac
}

# run_step STEP DEVICE RESULT: returns the step's exit status. A step writes its file anew after
# every size; it takes the place of an older one when all sizes are there.
run_step() {
  local flags status=0
  read -ra flags < <(step_flags "$2" "$1")
  "build/steps/$1" "${flags[@]}" --json "$out/$3.json.new" >"$out/$3.txt" 2>&1 || status=$?
  [ ! -e "$out/$3.json.new" ] || mv "$out/$3.json.new" "$out/$3.json"
  return "$status"
}

run_steps() {
  local jobs=() step on result status began left i started=$SECONDS
  mapfile -t jobs < <(plan)
  ((${#jobs[@]})) || die 1 "nothing to run: no step of --steps $steps runs on ${device:-this machine}"
  heading "Running ${#jobs[@]} times a step of the course; results go to $out"
  [[ ! $tune ]] || { [ "$gpu" ] && wanted gpu; } || say "No GPU is used, so no step chooses its tiles (--tune)."
  trap interrupted INT TERM
  for ((i = 0; i < ${#jobs[@]}; ++i)); do
    read -r step on result <<<"${jobs[i]}"
    current=$result left=
    ((i == 0)) || left="about $(minutes $(((SECONDS - started) * (${#jobs[@]} - i) / i))) left"
    printf '[%2d/%d] %-24s on the %-10s %s  ' $((i + 1)) ${#jobs[@]} "$step" "$on" "${left:-...}"
    began=$SECONDS status=0
    run_step "$step" "$on" "$result" || status=$?
    current=
    case $status in
      0) say "verified in $(minutes $((SECONDS - began)))" ;;
      3 | 4) say "skipped: $(tail -n 1 "$out/$result.txt" | sed 's/^ *skipped (\(.*\))$/\1/')" ;;
      *)
        failed+=("$step on the $on: exit status $status, $out/$result.txt")
        say "FAILED (exit status $status)"
        tail -n 5 "$out/$result.txt" | sed 's/^/        /'
        ;;
    esac
  done
  trap - INT TERM
}

interrupted() {
  local remaining
  remaining=$(printf '%s\n' "${jobs[@]:i}" | cut -d _ -f 1 | sort -u | paste -sd ,)
  # Of an interrupted step the sizes that it finished are kept, unless there is a whole file already.
  [ ! -e "$out/$current.json.new" ] || mv -n "$out/$current.json.new" "$out/$current.json"
  rm -f "$out/$current.json.new"
  printf '\n\nInterrupted. Everything measured so far is in %s\n' "$out"
  say "Its figures:  ./run_all.sh --plots-only $out"
  say "Go on with:   ./run_all.sh --steps $remaining${device:+ --device $device}${quick:+ --quick}${tune:+ --tune}"
  exit 130
}

# --------------------------------------------------------------------------------------- figures

draw() {
  local python
  python=$(python_for_plots) || die 3 "the figures need matplotlib: sudo apt-get install -y python3-matplotlib"
  heading "Drawing"
  "$python" plots/draw.py "$1"
}

results_directory() { echo "results/$(machine_name)-$(date +%F)"; }

run_course() {
  local failed=() current='' out
  install_missing
  build release course
  out=$(results_directory)
  mkdir -p "$out"
  run_steps
  draw "$out" || failed+=("the figures")
  heading "Summary"
  grep skipped build/steps.txt || true
  "$(python_for_plots)" plots/summary.py "$out" || failed+=("the summary")
  printf '\nFigures        %s\nResults        %s/*.json\nFull tables    %s/*.txt\nReading on     README.md\n' \
    "$out/figures" "$out" "$out"
  ((${#failed[@]} == 0)) || { printf 'FAILED         %s\n' "${failed[@]}"; exit 1; }
}

# ------------------------------------------------------------------------------------- counters

# Prints where ncu is: the toolkit's folder is often not in the PATH.
find_ncu() {
  local candidate
  for candidate in "$(command -v ncu)" /usr/local/cuda/bin/ncu /opt/nvidia/nsight-compute/*/ncu; do
    [ ! -x "$candidate" ] || { echo "$candidate"; return; }
  done
  return 1
}

run_counters() {
  local ncu out jobs=() status=0
  [ "$gpu" ] || die 2 "--counters: no GPU answers here; --device emulator counts without one"
  ncu=$(find_ncu) || die 3 "--counters: please install NVIDIA Nsight Compute (ncu); the CUDA toolkit has it"
  install_missing
  build release course
  device=gpu
  mapfile -t jobs < <(plan | cut -d ' ' -f 1)
  ((${#jobs[@]})) || die 1 "nothing to profile: no step of --steps $steps was built for the GPU"
  out=$(results_directory)
  heading "Reading counters of ${#jobs[@]} steps; results go to $out"
  python3 plots/profile_steps.py ${quick:+--quick} --ncu "$ncu" --steps build/steps "$out" "${jobs[@]}" || status=$?
  ((status > 1)) || printf '\nCounters       %s/*.ncu.csv\nTheir roofline ./run_all.sh --plots-only %s\n' "$out" "$out"
  return "$status"
}

# ---------------------------------------------------------------------------------------- tests

run_tests() {
  local report=build-test/tests.xml status=0
  install_missing
  build test all
  heading "Testing"
  ctest --preset test --parallel "$(cores)" --output-on-failure --output-junit tests.xml || status=$?
  count() { sed -n "s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" <<<"$(grep -m1 -A9 '<testsuite' "$report")" | head -n 1; }
  local all failures skipped
  all=$(count tests) failures=$(count failures) skipped=$(($(count skipped) + $(count disabled)))
  printf '\n%d passed, %d failed, %d skipped\n' $((all - failures - skipped)) "$failures" "$skipped"
  return "$status"
}

# ----------------------------------------------------------------------------------------- diff

# The kernel of a step: all between the opening of its namespace and its `prepare`, in its file and in
# the kernels' files in the folder of its name.
kernel_of() {
  local files
  mapfile -t files < <(printf '%s\n' "$1"; compgen -G "${1%.*}/*.cuh")
  awk 'FNR == 1 || /^(Run prepare|Traffic traffic|inline |template <(.*Tile T[>,]|Variant ))/ { inside = 0 }
       inside { print }
       /^namespace {/ { inside = 1 }' "${files[@]}"
}

show_diff() {
  local after='' before
  [[ ! $1 =~ ^[0-9]+$ ]] || after=$(steps=$1 selected_sources)
  [ "$after" ] || die 2 "--diff $1: there is no such step in steps/"
  before=$(sed -n '1s/.*Before: *\([^ ]*\).*/\1/p' "$after")
  [ -e "steps/$before" ] || die 2 "--diff $1: $after has no step before it"
  diff -u --label "steps/$before" --label "$after" <(kernel_of "steps/$before") <(kernel_of "$after") || true
}

# ----------------------------------------------------------------------------------------- main

mode=run quick='' steps='' device='' tune='' subject=''
gpu=$(gpu_name) || gpu=''

is_only_task() { [[ $mode = run ]] || die 2 "$1: one of --counters, --test, --diff and --plots-only at a time"; }
needs_value() { [[ ${2:---} != --* ]] || die 2 "$1 needs a value; see ./run_all.sh --help"; }

while (($#)); do
  case $1 in
    --help | -h) usage; exit ;;
    --quick) quick=yes ;;
    --tune) tune=yes ;;
    --steps) needs_value "$@"; steps=$2; shift ;;
    --device) needs_value "$@"; device=$2; shift ;;
    --counters) is_only_task "$1"; mode=counters ;;
    --test) is_only_task "$1"; mode='test' ;;
    --diff) is_only_task "$1"; needs_value "$@"; mode=diff subject=$2; shift ;;
    --plots-only) is_only_task "$1"; needs_value "$@"; mode=plots subject=$2; shift ;;
    *) die 2 "unknown argument '$1'; see ./run_all.sh --help" ;;
  esac
  shift
done

number='[0-9]+(-[0-9]+)?'
[[ ! $steps || $steps =~ ^$number(,$number)*$ ]] ||
  die 2 "--steps $steps: write numbers and ranges, such as 09-13 or 03,09-11"
[[ $device =~ ^(|cpu|gpu|emulator)$ ]] || die 2 "--device $device: there are cpu, gpu and emulator"
[[ $device != gpu || $gpu ]] || die 2 "--device gpu: no GPU answers here; --device emulator runs the GPU steps without one"
[[ $mode = run || ! $tune ]] || die 2 "--tune belongs to a run of the steps: leave it out"
[[ $mode != counters || $device =~ ^(|gpu)$ ]] || die 2 "--counters reads those of a GPU: leave --device $device out"
steps=${steps:-1-99}
[ "$(selected_sources)" ] || die 2 "--steps $steps: there is no such step in steps/ (ranges go up: 09-13)"

case $mode in
  run) run_course ;;
  counters) run_counters ;;
  test) run_tests ;;
  diff)
    show_diff "$subject"
    ;;
  plots)
    [ -d "$subject" ] || [ ! -d "$started_in/$subject" ] || subject=$started_in/$subject
    [ -d "$subject" ] || die 2 "--plots-only $subject: there is no such directory"
    draw "$subject"
    ;;
esac
