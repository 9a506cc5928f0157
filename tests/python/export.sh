#!/usr/bin/env bash
# export.sh ATTNFUZZ PYTHON PACKAGE: a failure of a Python function as a script that runs the function from its file, with
# attnfuzz installed and without.
set -u
attnfuzz=$1 package=$3
export ATTNFUZZ_PYTHON=$2
unset PYTHONPATH
here=$(cd "$(dirname "$0")" && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
die() {
  echo "$*"
  cat "$out/log"
  exit 1
}
ran() { # STATUS SCRIPT ARGUMENTS...
  local due=$1
  shift
  (cd "$out" && "$ATTNFUZZ_PYTHON" -W error "$@") >"$out/log" 2>&1
  [ $? -eq "$due" ] || die "$*: another status than $due"
}
# The example with a bug: keys of a second tile count twice.
sed 's/^    total = .*/    e[..., 64:] *= 2\n&/' "$here/../../examples/mine.py" >"$out/mine.py"
"$attnfuzz" check "$out/mine.py:mine" --cases 40 --jobs 1 --reduce-seconds 3 --out "$out/found" >"$out/log" 2>&1
[ $? -eq 1 ] || die "the bug is not found"
file=$(ls "$out"/found/*.attn.json)
"$attnfuzz" export "$file" --kernel "$out/mine.py:mine" --python -o "$out/shows.py" >"$out/log" 2>&1 || die "it is not exported"
[ -s "$out/log" ] && die "export has something to say"
ran 1 shows.py
grep -q "IT FAILS" "$out/log" && grep -q "must be" "$out/log" || die "it is not said what is wrong"
PYTHONPATH=$package ran 1 shows.py

# Mended, it holds; one that raises says where.
cp "$here/../../examples/mine.py" "$out/mine.py"
ran 0 shows.py
grep -q "it passes" "$out/log" || die "the mended function does not hold"
sed 's/^    total = .*/    raise ValueError("no tail")/' "$here/../../examples/mine.py" >"$out/mine.py"
ran 1 shows.py
grep -q 'raised ValueError: no tail (mine.py:' "$out/log" || die "what it raises is not told"

# From another place, by its argument; and what cannot be done.
mkdir "$out/elsewhere"
mv "$out/mine.py" "$out/elsewhere"
ran 2 shows.py
grep -q "mine.py is not here: put it beside this program, or name it" "$out/log" || die "a file that is not there is not told"
ran 1 shows.py elsewhere/mine.py
echo "import nothing_of_this_name" >"$out/elsewhere/mine.py"
ran 2 shows.py elsewhere/mine.py
grep -q "cannot be imported: ModuleNotFoundError: No module named 'nothing_of_this_name'" "$out/log" || die "a broken file is not told"
cp "$here/../../examples/mine.py" "$out/mine.py"
"$attnfuzz" export "$file" --kernel "$out/mine.py:mine" --cpp >"$out/log" 2>&1
[ $? -eq 2 ] && grep -q "is Python, which no C++ program calls: say --python" "$out/log" || die "--cpp of a Python function is not refused"

# Arrays by *args, and results as a dict or a tuple: the program calls the function and reads its results as a worker
# does, with attnfuzz installed and without.
for result in '{"o": o, "lse": lse}' 'o, lse'; do
  sed -e 's/^def mine(.*/def mine(p, *arrays):/' -e 's/in (q, k, v))/in arrays)/' \
    -e 's/^    total = .*/    e[..., 64:] *= 2\n&/' \
    -e "s/^    return \(.*\), (top\(.*\)/    o, lse = \1, (top\2\n    return $result/" "$here/../../examples/mine.py" >"$out/spread.py"
  rm -rf "$out/found" && "$attnfuzz" check "$out/spread.py:mine" --cases 40 --jobs 1 --reduce-seconds 3 --out "$out/found" >"$out/log" 2>&1
  [ $? -eq 1 ] || die "the bug is not found with *args and $result"
  "$attnfuzz" export "$(ls "$out"/found/*.attn.json)" --kernel "$out/spread.py:mine" --python -o "$out/forms.py" >"$out/log" 2>&1 ||
    die "a function of *args is not exported"
  ran 1 forms.py
  grep -q "IT FAILS" "$out/log" && grep -q "must be" "$out/log" || die "it is not said what is wrong with *args and $result"
  PYTHONPATH=$package ran 1 forms.py
  sed -i '/^    e\[..., 64:\]/d' "$out/spread.py"
  ran 0 forms.py
  PYTHONPATH=$package ran 0 forms.py
done
sed -i 's/^    return .*/    return {"out": o, "lse": lse, "sums": lse}/' "$out/spread.py"
ran 1 forms.py
grep -q "returned sums, and this call asks for out, lse" "$out/log" || die "an output that is none is not told"

# A window may be as wide as an int64_t, and nothing wraps: query 1 sees all keys.
cat >"$out/wide.py" <<'END'
import attnfuzz
from attnfuzz.targets.numpy_reference import ERRORS, attention


@attnfuzz.target(errors=ERRORS)
def wide(p, q, k, v, bias=None, mask=None, key_lengths=None):
    return attention.function(p, q, k, v, bias, mask, key_lengths)
END
for problem in '"seq_q": 2, "seq_k": 2, "window_right"' '"seq_q": 2, "seq_k": 3, "align": "bottom_right", "window_right"' \
  '"seq_q": 3, "seq_k": 2, "align": "bottom_right", "window_left"'; do
  echo '{"format": 1, "problem": {'"$problem"': 9223372036854775807}}' >"$out/wide.case.json"
  "$attnfuzz" export "$out/wide.case.json" --kernel "$out/wide.py:wide" --python -o "$out/widest.py" >"$out/log" 2>&1 ||
    die "a wide window is not exported"
  PYTHONPATH=$package ran 0 widest.py
done

# Packed entries: the program gives the function rows as a worker does, and knows each entry's lengths.
cat >"$out/packed.py" <<'END'
import attnfuzz
from attnfuzz.targets.numpy_reference import ERRORS, attention


@attnfuzz.target(errors=ERRORS, bf16="bits", domain=attnfuzz.Domain(features=("packed", "int32"), bias=False, mask=False))
def packed(p, q, k, v, key_lengths=None, cu_seqlens_q=None, cu_seqlens_k=None):
    o, lse = attention.function(p, q, k, v, key_lengths=key_lengths, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k)
    o[-1:] = o[-1:] + 1 if p.ragged == 3 and p.total_q == cu_seqlens_q[-1] > cu_seqlens_q[1] else o[-1:]
    return o, lse
END
"$attnfuzz" check "$out/packed.py:packed" --cases 300 --jobs 1 --property reference --reduce-seconds 3 --out "$out/packs" >"$out/log" 2>&1
[ $? -eq 1 ] || die "the bug with packed entries is not found"
"$attnfuzz" export "$(ls "$out"/packs/*.attn.json)" --kernel "$out/packed.py:packed" --python -o "$out/packs.py" >"$out/log" 2>&1 ||
  die "packed entries are not exported"
PYTHONPATH=$package ran 1 packs.py
grep -q "o(h=0,r=[0-9]*,d=0) is .*, must be" "$out/log" || die "it is not said which packed row is wrong"
sed -i '/^    o\[-1:\]/d' "$out/packed.py"
PYTHONPATH=$package ran 0 packs.py

# Keys in pages, likewise.
cat >"$out/paged.py" <<'END'
import attnfuzz
from attnfuzz.targets.numpy_reference import ERRORS, attention


@attnfuzz.target(errors=ERRORS, bf16="bits", domain=attnfuzz.Domain(features=("paged", "packed", "int32"), bias=False, mask=False))
def paged(p, q, k, v, key_lengths=None, cu_seqlens_q=None, cu_seqlens_k=None, block_table=None):
    if p.page_size and p.batch > 1: block_table = block_table[[0] + list(range(p.batch - 1))]
    return attention.function(p, q, k, v, key_lengths=key_lengths, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k,
                              block_table=block_table)
END
"$attnfuzz" check "$out/paged.py:paged" --cases 300 --jobs 1 --property reference --reduce-seconds 3 --out "$out/pages" >"$out/log" 2>&1
[ $? -eq 1 ] || die "the bug with pages is not found"
"$attnfuzz" export "$(ls "$out"/pages/*.attn.json)" --kernel "$out/paged.py:paged" --python -o "$out/pages.py" >"$out/log" 2>&1 ||
  die "keys in pages are not exported"
PYTHONPATH=$package ran 1 pages.py
sed -i '/^    if p.page_size and/d' "$out/paged.py"
PYTHONPATH=$package ran 0 pages.py

# An append, which writes into the caches that it is given.
cat >"$out/append.py" <<'END'
import attnfuzz


@attnfuzz.target(operation="append", bf16="bits", domain=attnfuzz.Domain(features=("paged", "packed", "int32")))
def append(p, k, v, k_new, v_new, key_lengths, block_table=None, cu_seqlens_q=None):
    for b, length in enumerate(key_lengths.clip(0, p.seq_k)):
        for pool, new in ((k, k_new), (v, v_new)):
            rows = new[b].swapaxes(0, 1) if cu_seqlens_q is None else new[cu_seqlens_q[b] : cu_seqlens_q[b + 1]]
            for key, row in enumerate(rows[: p.seq_k - length], length):
                page, slot = (b, key) if block_table is None else (block_table[b, key // p.page_size], key % p.page_size)
                slot = max(slot - 1, 0)
                pool[page, :, slot] = row
END
"$attnfuzz" check "$out/append.py:append" --cases 300 --jobs 1 --property reference --reduce-seconds 3 --out "$out/appends" >"$out/log" 2>&1
[ $? -eq 1 ] || die "the bug of an append is not found"
"$attnfuzz" export "$(ls "$out"/appends/*.attn.json)" --kernel "$out/append.py:append" --python -o "$out/appends.py" >"$out/log" 2>&1 ||
  die "an append is not exported"
PYTHONPATH=$package ran 1 appends.py
grep -q "cache_[kv](store=[0-9]*,h=[0-9]*,slot=[0-9]*,d=[0-9]*) has the bits 0x" "$out/log" || die "it is not said which slot is wrong"
sed -i '/^                slot = max/d' "$out/append.py"
PYTHONPATH=$package ran 0 appends.py

# Listed blocks, likewise.
cat >"$out/listed.py" <<'END'
import numpy as np

import attnfuzz
from attnfuzz.targets.numpy_reference import ERRORS, selected


@attnfuzz.target(errors=ERRORS, bf16="bits", operation="selected", domain=attnfuzz.Domain(features=("int32",)))
def listed(p, q, k, v, indices, key_lengths=None):
    indices = np.where(np.asarray(indices) < 0, 0, indices)
    assert p.blocks == -(-p.seq_k // p.block)
    return selected.function(p, q, k, v, indices, key_lengths)
END
"$attnfuzz" check "$out/listed.py:listed" --cases 300 --jobs 1 --property reference --reduce-seconds 3 --out "$out/lists" >"$out/log" 2>&1
[ $? -eq 1 ] || die "the bug with listed blocks is not found"
"$attnfuzz" export "$(ls "$out"/lists/*.attn.json)" --kernel "$out/listed.py:listed" --python -o "$out/lists.py" >"$out/log" 2>&1 ||
  die "listed blocks are not exported"
PYTHONPATH=$package ran 1 lists.py
sed -i '/^    indices = np.where/d' "$out/listed.py"
PYTHONPATH=$package ran 0 lists.py

# Packed lists: -1 is wrong in packed entries alone, so the finding has packed queries and keys.
cat >"$out/packed_lists.py" <<'END'
import numpy as np

import attnfuzz
from attnfuzz.targets.numpy_reference import ERRORS, selected


@attnfuzz.target(errors=ERRORS, bf16="bits", operation="selected", domain=attnfuzz.Domain(features=("packed", "int32")))
def listed(p, q, k, v, indices, key_lengths=None, cu_seqlens_q=None, cu_seqlens_k=None):
    if p.ragged == 3: indices = np.where(np.asarray(indices) < 0, 0, indices)
    assert indices.shape == ((p.total_q, p.heads_kv, p.select) if p.ragged & 1 else (p.batch, p.heads_kv, p.seq_q, p.select))
    return selected.function(p, q, k, v, indices, key_lengths, cu_seqlens_q, cu_seqlens_k)
END
"$attnfuzz" check "$out/packed_lists.py:listed" --cases 300 --jobs 1 --property reference --reduce-seconds 3 --out "$out/packed_lists" \
  >"$out/log" 2>&1
[ $? -eq 1 ] || die "the bug with packed lists is not found"
"$attnfuzz" export "$(ls "$out"/packed_lists/*.attn.json)" --kernel "$out/packed_lists.py:listed" --python \
  -o "$out/packed_lists_show.py" >"$out/log" 2>&1 || die "packed lists are not exported"
grep -q 'ragged=3' "$out/packed_lists_show.py" || die "the program of packed lists has no packed entries"
PYTHONPATH=$package ran 1 packed_lists_show.py
grep -qE "(o|lse)\(h=[0-9]*,r=[0-9]*(,d=[0-9]*)?\) is .*, must be" "$out/log" || die "it is not said which row of packed lists is wrong"
sed -i '/^    if p.ragged == 3: indices/d' "$out/packed_lists.py"
PYTHONPATH=$package ran 0 packed_lists_show.py

# Their gradients too, but no gradients of sinks.
cat >"$out/grads.py" <<'END'
import numpy as np

import attnfuzz
from attnfuzz.targets.numpy_reference import BACKWARD, backward, selected_backward


@attnfuzz.target(errors=BACKWARD, bf16="bits", operation="selected_backward", domain=attnfuzz.Domain(features=("int32",)))
def listed(p, q, k, v, indices, dout, o, lse, key_lengths=None):
    indices = np.where(np.asarray(indices) < 0, 0, indices)
    return selected_backward.function(p, q, k, v, indices, dout, o, lse, key_lengths)


@attnfuzz.target(errors=BACKWARD, bf16="bits", operation="backward", domain=attnfuzz.Domain(features=("has_sink", "dsink")))
def sinks(p, q, k, v, dout, o, lse, bias=None, mask=None, key_lengths=None, sink=None):
    due = backward.function(p, q, k, v, dout, o, lse, bias, mask, key_lengths, sink=sink)
    return {name: -value if name == "dsink" else value for name, value in due.items()}
END
for name in listed sinks; do
  "$attnfuzz" check "$out/grads.py:$name" --cases 300 --jobs 1 --property reference --reduce-seconds 3 --out "$out/$name" >"$out/log" 2>&1
  [ $? -eq 1 ] || die "the bug of the gradients $name is not found"
done
"$attnfuzz" export "$(ls "$out"/listed/*.attn.json)" --kernel "$out/grads.py:listed" --python -o "$out/grads_show.py" >"$out/log" 2>&1 ||
  die "gradients over listed blocks are not exported"
PYTHONPATH=$package ran 1 grads_show.py
sed -i '/^    indices = np.where/d' "$out/grads.py"
PYTHONPATH=$package ran 0 grads_show.py
"$attnfuzz" export "$(ls "$out"/sinks/*.attn.json)" --kernel "$out/grads.py:sinks" --python >"$out/log" 2>&1
[ $? -eq 2 ] && grep -q "attnfuzz replay shows the finding" "$out/log" || die "the export of a gradient of sinks is not refused"
exit 0
