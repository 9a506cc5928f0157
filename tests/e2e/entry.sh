#!/usr/bin/env bash
# entry.sh ATTNFUZZ SOURCE EXTENSION SOURCES
#
# A CUDA source as it stands, checked by one command: it is built, judged, built again when
# it changed, and refused with the compiler's words, or with what to do, where it cannot be.
# SOURCE has attention_forward(float* q, k, v, out, int B, H, S, D); EXTENSION is a folder with one of PyTorch;
# SOURCES holds names.cu, whose names are those of our headers, tensors.cu, limited.cu, which takes little, and forms.cu,
# in forms that a host compiler may not take.
set -u
attnfuzz=$1 source=$2 extension=$3 sources=$4
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cp "$source" "$out/mine.cu"
cd "$out" || exit 1
wrong=0
# expect STATUS WORDS ARGUMENT...: of `attnfuzz check mine.cu`.
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
call='attention_forward(q, k, v, o, B, H, S, D)'
expect 2 "say how its function is called"
# The user's own compiler: one that is named, or none at all; g++ builds plain alone.
mkdir none && for tool in sh sed grep cat cmake; do ln -s "$(command -v $tool)" none/; done
PATH=$PWD/none CXX= expect 2 "there is neither: install one (apt install clang-19, or g++)" --entry "$call"
# A clang that finds no C++ library is none.
clang=$(command -v clang++-19 || command -v clang++)
printf '#!/bin/sh\nexec %s -nostdinc++ "$@"\n' "$clang" >none/clang++ && chmod +x none/clang++
PATH=$PWD/none CXX= expect 2 "there is neither: install one (apt install clang-19, or g++)" --entry "$call"
CXX=/bin/false expect 2 "CXX=/bin/false is neither: name one, or unset CXX" --entry "$call"
if gxx=$(command -v g++); then
  CXX=$gxx expect 2 "--build coverage is built by clang 15 or later, .*apt install clang-19" --entry "$call" --build coverage
fi
"$attnfuzz" check fa1 --cases 1 --entry "$call" >log 2>&1
[ $? -eq 2 ] && grep -q "name the source" log || { echo "--entry without a source is taken"; cat log; wrong=1; }
expect 2 "does not build" --entry 'attention_backward(q, k, v, o, B, H, S, D)'
grep -q "attention_backward" log || { echo "the compiler's words are missing"; cat log; wrong=1; }
expect 0 "40 cases in" --entry "$call"
grep -q "mine.cu: run on [0-9]* small problems, it takes all that was tried" log || { echo "it was not asked"; cat log; wrong=1; }
errors() { sed -n '/^  property .*worst/,/^  drawn: /p' log; }
errors >by_clang
expect 0 "left out: .*nan_visible" --finite --entry "$call"
# A machine that has Ninja need not have make.
if [ -z "${CMAKE_GENERATOR:-}" ] && command -v ninja >/dev/null; then
  grep -q '^CMAKE_GENERATOR:INTERNAL=Ninja$' mine.attnfuzz/build/CMakeCache.txt || { echo "it is built by make"; wrong=1; }
fi
sed -i 's/for (int j = 0; j < S; j++) acc/for (int j = 0; j + 1 < S; j++) acc/' mine.cu
cmp -s "$source" mine.cu && { echo "entry.sh: nothing to break"; wrong=1; }
expect 1 "^replay: attnfuzz replay .*--kernel .*libattn_mine_cpu.so" --reduce-seconds 2 --entry "$call" --takes 'dim = one_of(8, 16); batch = at_most(2)'
eval "\"\$attnfuzz\" $(sed -n 's/^replay: attnfuzz //p' log)" >replayed 2>&1
[ $? -eq 1 ] || { echo "the replay line does not fail"; cat replayed; wrong=1; }
# g++ builds it again where no clang is, and its errors are the same, property by property.
if [ -n "$gxx" ]; then
  cp "$source" mine.cu
  for tool in ninja make as ld ar ranlib g++; do ln -s "$(command -v $tool)" none/ 2>/dev/null; done
  PATH=$PWD/none CXX= expect 0 "mine.cu: built for the CPU executor by g++ [0-9]* (.*/none/g++)" --entry "$call" &&
    errors >by_gxx
  grep -q GNU mine.attnfuzz/build/CMakeFiles/*/CMakeCXXCompiler.cmake && grep -q "interval_weight  *2  *2 " by_gxx &&
    cmp by_clang by_gxx || { echo "g++ and clang differ"; diff by_clang by_gxx; wrong=1; }
fi
# An extension of PyTorch, which need not be here: in fp32 as in fp16; what its checks throw is told.
cp -r "$extension" .
of=extension/attention.cu
expect 2 "'check.h' file not found" --entry 'o = forward(q, k, v)' --takes 'dim = at_most(32); equal_lengths = true'
expect 0 "40 cases in" --entry 'o = forward(q, k, v)' --takes 'dim = at_most(32); equal_lengths = true; format = Formats::kAny' \
  --include extension/include
grep -q "fp32 [0-9]" log && grep -q "drawn: .*" log || { echo "fp32 is not drawn"; cat log; wrong=1; }
expect 0 "a scale that is not positive" --entry 'o, lse = forward_both(q, k, v, scale)' --include extension/include \
  --takes 'dim = at_most(32); seq = at_most(32); scale = Scale::kPositive; format = Formats::kF32'
# --domain narrows what is declared, formats too: nothing but fp32 is drawn, and a right kernel passes.
expect 0 "40 cases in" --entry 'o, lse = forward_both(q, k, v, scale)' --include extension/include \
  --takes 'dim = at_most(32); seq = at_most(32); scale = Scale::kPositive; format = Formats::kF32' --domain 'dim=8..16 seq>=4'
grep -q "refused 0.0 %" log || { echo "what is not declared is drawn"; cat log; wrong=1; }
expect 2 "leaves nothing of what attention declares: dim_qk: at most 32 and 64, 128" --entry 'o, lse = forward_both(q, k, v, scale)' \
  --include extension/include --domain 'dim=64,128' \
  --takes 'dim = at_most(32); seq = at_most(32); scale = Scale::kPositive; format = Formats::kF32'
expect 1 "scale = Scale::kPositive" --entry 'o, lse = forward_both(q, k, v, scale)' --include extension/include \
  --takes 'dim = at_most(32); seq = at_most(32); format = Formats::kF32' --reduce-seconds 2
expect 0 "1 not tried, for --domain leaves such cases out" --entry 'o, lse = forward_both(q, k, v, scale)' \
  --include extension/include --takes 'dim = at_most(32); seq = at_most(32); format = Formats::kF32' --domain \
  'f32 dim<=32 seq<=32 equal_dims positive_scale no_bias no_mask no_window no_softcap no_key_lengths no_causal no_gqa'
expect 1 "it threw: no more than 32 columns, not 33" --entry 'o = forward(q, k, v)' --include extension/include --reduce-seconds 1 \
  --takes 'dim = one_of(33); equal_lengths = true'
# Names and macros of a source are its own; a launch is an entry, and a kernel by its name is told how to be one.
cp "$sources"/* .
of=names.cu
expect 0 "40 cases in" --finite --entry 'launch::attn(q, k, v, o, Call{B * H, S}, D)' --takes 'seq = at_most(64)'
expect 0 "40 cases in" --finite --entry 'attend<<<dim3(1, B * H), 64>>>(q, k, v, o, S, D)' --takes 'seq = at_most(32)'
expect 2 "attend is a __global__ function: .*--entry 'attend<<<dim3((S + 127) / 128, B \* H), 128>>>(q, k, v, o, S, D)'" \
  --entry 'attend(q, k, v, o, S, D)'
# A vector of tensors; a scale of the kernel's own, a window and pages.
of=tensors.cu
takes='format = Formats::kF32; equal_lengths = true; seq = at_most(32)'
expect 0 "40 cases in" --finite --entry 'o = one(q, k, v)' --takes "$takes; scale = 1.0"
expect 0 " window [1-9]" --finite --entry 'o, lse = two(q, k, v, scale, window_left, window_right)' \
  --takes "$takes; scale = Scale::kPositive"
rows='rows<<<dim3((S + 63) / 64, B), 64>>>(q, k, v, o, nullptr, pages, lengths, {S, D, -1, -1, page, pages_each, scale})'
expect 0 "40 cases in" --finite --entry "$rows" --takes 'heads = one_of(1); page = 16; scale = Scale::kPositive; seq = at_most(32)'
expect 2 "say how many keys a page has" --entry "$rows"
expect 2 "name it in the call" --entry 'o = one(q, k, v)' --takes 'page = 16'
expect 2 "window_left, window_right" --entry 'o = one(q, k, v)' --takes 'window = 128'
# Sinks, and slopes of each batch entry; without them a call has neither.
of=sinks.cu
expect 0 " sinks [1-9]" --finite --entry 'launch(q, k, v, o, sink, slopes, slopes_each, B, H, S, D, scale)' \
  --takes 'seq = at_most(32); dim = at_most(32)'
grep -q " slopes [1-9]" log || { echo "no slopes were drawn"; cat log; wrong=1; }
expect 0 "40 cases in" --finite --entry 'launch(q, k, v, o, nullptr, nullptr, 0, B, H, S, D, scale)' \
  --takes 'seq = at_most(32); dim = at_most(32)'
grep -q " sinks [1-9]" log && { echo "sinks were drawn for a call without them"; cat log; wrong=1; }
# Packed sequences: a call as flash_attn_varlen has it. A dense batch is packed for it. Keys by the queries' offsets, and
# rows that belong to no sequence, are found.
of=varlen.cu
varlen() { echo "varlen_fwd(q, k, v, o, lse, $1, B, Sq, Sk, total_q, H, Hkv, D, scale, causal$2)"; }
packed='align = ATTN_BOTTOM_RIGHT; seq = at_most(32); seq_k = at_most(40); dim = at_most(32); heads = at_most(6)'
cases=150
expect 0 " packed queries [1-9]" --finite --entry "$(varlen 'cu_q, cu_k' '')" --takes "$packed" --property reference \
  --property layout
grep -q "refused 0.0 %" log || { echo "cases of a kernel of packed sequences were refused"; cat log; wrong=1; }
expect 1 "packed" --finite --entry "$(varlen 'cu_q, cu_q + 0 * cu_k[0]' '')" --takes "$packed" --property reference \
  --reduce-seconds 3
# Where O is copied for the kernel, the adapter tells of it; else the check does.
expect 1 "of [oO],* behind the last \(batch entry, was written\|packed sequence\)" --finite \
  --entry "$(varlen 'cu_q, cu_k' ', true')" --takes "$packed" --property reference --reduce-seconds 3
expect 1 "wrote rows of O behind the last packed sequence" --finite --entry "$(varlen 'cu_q, cu_k' ', true')" \
  --takes "$packed; align_bytes = 4096" --property reference --reduce-seconds 3
unset cases
expect 2 "the call names cu_q: name cu_k as well" --entry 'f(q, k, v, o, cu_q, B, Sq, Sk, D)'
expect 2 "name cu_q and cu_k in the call" --entry 'f(q, k, v, o, total_q, B, Sq, Sk, D)'
expect 2 "name Sq and Sk, which no sequence exceeds, instead of S" --entry 'f(q, k, v, o, cu_q, cu_k, B, S, D)'
# Keys in pages: a call as serving engines have it, with pages of any size or of one, and with packed queries. Keys that are
# not in such pages are laid in them. Another row of the table, and whole pages, are found.
of=paged.cu
paged() { echo "paged_attention(o, q, k, v, block_table, ${1:-key_lengths}, B, Sq, H, Hkv, D, scale, ${2:-page_size}, ${3:-pages_per_seq}$4)"; }
small='seq = at_most(16); seq_k = at_most(70); dim = at_most(32); heads = at_most(6); batch = at_most(5)'
cases=150
expect 0 " pages [1-9]" --finite --entry "$(paged '' '' '' '')" --takes "$small" --property reference --property paged_gathered \
  --property paged_renumbered
grep -q "refused 0.0 %" log || { echo "cases of a kernel of pages were refused"; cat log; wrong=1; }
expect 0 " pages [1-9]" --finite --entry "$(paged '' 16 '' '')" --takes "$small; page = 16" --property reference
grep -q "refused 0.0 %" log || { echo "cases of a kernel of pages of 16 keys were refused"; cat log; wrong=1; }
expect 0 " pages [1-9]" --finite --entry "$(paged '' '' '' ', cu_q')" --takes "$small" --property reference
grep -q " packed queries [1-9]" log && grep -q "refused 0.0 %" log || { echo "not all of packed queries was taken"; cat log; wrong=1; }
expect 1 "^FAIL (reference" --finite --entry "$(paged '' '' 'pages_per_seq - 1' '')" --takes "$small" --property reference --reduce-seconds 3
unset cases
expect 2 "name key_lengths as well" --entry 'f(q, k, v, o, block_table, page_size, B, Sq, Sk, D)'
expect 2 "name page_size as well, or say how many keys a page has" --entry 'f(q, k, v, o, block_table, key_lengths, B, Sq, Sk, D)'
expect 2 "name block_table in the call" --entry 'f(q, k, v, o, key_lengths, B, Sq, Sk, D)'
expect 2 "keys lie in pages or packed" --entry 'f(q, k, v, o, block_table, key_lengths, page_size, cu_q, cu_k, B, Sq, Sk, D)'
# Limits that nobody declared are found by running the function, and printed in one line with the text to paste. limits, campaign
# and reduce take a source as check does, and build it once.
run() {  # run STATUS WORDS ARGUMENT...
  local status=$1 words=$2
  shift 2
  "$attnfuzz" "$@" >log 2>&1
  local got=$?
  [ $got -eq "$status" ] && grep -q -e "$words" log || { echo "$*: status $got, $status is due, and '$words' in"; cat log; wrong=1; }
}
of=limited.cu call='launch(q, k, v, o, B * H, S, D, scale)' found='dim = one_of(16, 48); seq = at_most(64); shared = 166912'
run 0 "limited.cu: run on [0-9]* small problems, it takes $found; elsewhere: it threw: a head dimension of 16 or 48 alone (f32 B 1 H 1 S 16 D 32); exit status 3" \
  limits limited.cu --cases 20 --entry "$call"
grep -q -e "--takes '$found'" log || { echo "there is nothing to paste"; cat log; wrong=1; }
run 1 "takes, as was found before by running it: $found" \
  campaign limited.cu --entry "$call" --finite --for 2s --jobs 1 --out night --reduce-seconds 1 --no-seeded-bug
run 1 "^replay: .*limited.attnfuzz/libattn_limited_cpu.so" \
  reduce "$(find night -name '*.attn.json' | head -1)" --kernel limited.cu --entry "$call" --seconds 1 --out night/smaller.attn.json
# --takes is believed: if the function refuses within it, that is a failure. limits runs a kernel that declares more than it takes.
expect 1 "let it refuse the others (Takes: shared = 166912" --finite --reduce-seconds 1 --entry "$call" \
  --takes 'dim = one_of(48); seq = at_most(32); shared = 1'
grep -q "^FAIL (reference, fault): .*120000 bytes of shared memory: a block may have 101376" log || { echo "it is no failure"; cat log; wrong=1; }
run 0 "small problems, it takes shared = 166912; elsewhere: .*120000 bytes" limits limited.attnfuzz/libattn_limited_cpu.so --cases 20
grep -q "it takes 20 (100.0 %)" log || { echo "limits did not run it"; cat log; wrong=1; }
expect 2 "it takes none: it wrote nothing into O (f32 B 1 H 1 S 16 D 32); say what it takes" --entry 'launch_nothing(q, k, v, o, B * H, S, D)'
# g++ builds what it is strict about, and its errors are the same there too.
if [ -n "$gxx" ]; then
  of=forms.cu call='launch(q, k, v, o, B * H, S, S, D, scale, causal)' takes='dim = at_most(128); seq = at_most(64)'
  expect 0 "forms.cu: built for the CPU executor by clang [0-9]* (" --finite --entry "$call" --takes "$takes"
  errors >by_clang
  CXX=$gxx expect 0 "forms.cu: built for the CPU executor by g++ [0-9]* ($gxx)" --finite --entry "$call" --takes "$takes"
  errors >by_gxx
  grep -q "reference  *[1-9]" by_gxx && cmp by_clang by_gxx || { echo "g++ and clang differ"; diff by_clang by_gxx; wrong=1; }
fi
exit $wrong
