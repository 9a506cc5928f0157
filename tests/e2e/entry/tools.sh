# What the scripts here begin with: PART.sh ATTNFUZZ SOURCE EXTENSION SOURCES. They check CUDA sources as they stand, each
# by one command with --entry.
# SOURCE has attention_forward(float* q, k, v, out, int B, H, S, D); EXTENSION is a folder with one of PyTorch; SOURCES is
# this folder. Each script works in a folder of its own, with these sources and SOURCE as mine.cu.
attnfuzz=$1 source=$2 extension=$3 sources=$4
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1
cp "$sources"/*.cu* . && cp "$source" mine.cu && cp -r "$extension" extension || exit 1
gxx=$(command -v g++)
wrong=0
# expect STATUS WORDS ARGUMENT...: of `attnfuzz check $of`.
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
