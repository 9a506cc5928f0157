# Sourced by the scripts of this folder, which are called PART.sh ATTNFUZZ SOURCE EXTENSION SOURCES. They check unedited
# CUDA sources, each by one command with --entry.
# SOURCE has attention_forward(float* q, k, v, out, int B, H, S, D); EXTENSION is a folder with an extension of PyTorch;
# SOURCES is this folder. Each script works in a temporary folder, with these sources and with SOURCE as mine.cu.
attnfuzz=$1 source=$2 extension=$3 sources=$4
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1
cp "$sources"/*.cu* . && cp "$source" mine.cu && cp -r "$extension" extension || exit 1
gxx=$(command -v g++)
wrong=0
# expect STATUS WORDS ARGUMENT...: checks the status and the output of `attnfuzz check $of`; $of is mine.cu by default.
expect() {
  local status=$1 words=$2
  shift 2
  "$attnfuzz" check "${of:-mine.cu}" --cases "${cases:-40}" --jobs 1 -v "$@" >log 2>&1
  local got=$?
  if [ $got -ne "$status" ] || ! grep -q -e "$words" log; then
    echo "check ${of:-mine.cu} $*: status $got, $status is due, and '$words' in"
    cat log
    wrong=1
  fi
}
# The table of errors in the last log.
errors() { sed -n '/^  property .*worst/,/^  drawn: /p' log; }
