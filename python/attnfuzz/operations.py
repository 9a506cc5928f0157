"""The tensors, sizes and features of each operation, and what a call has of them."""

import functools

from attnfuzz.contract import FEATURE_BITS, OF_FORWARD, OPERATIONS, PROBLEM_FIELDS, TENSOR_SPECS

DTYPES = ("f16", "bf16", "f32")  # in the order of attn_dtype
INDEX_TYPES = ("i64", "i32")  # in the order of attn_index
RAGGED_QUERIES, RAGGED_KEYS = 1, 2  # attn_ragged

# The inputs by name; the outputs, among them caches, which an operation reads and writes in place; and the tensors with
# strides. A name is that of TENSOR_SPECS, where the O that a backward pass reads is
# "saved_o"; argument_of() says what a function calls it.
INPUTS = tuple(name for name, (role, *_) in TENSOR_SPECS.items() if role == "input")
OUTPUTS = tuple(name for name, (role, *_) in TENSOR_SPECS.items() if role in ("output", "state"))
STATES = tuple(name for name, (role, *_) in TENSOR_SPECS.items() if role == "state")
STRIDED = tuple(name for name, spec in TENSOR_SPECS.items() if spec[4])
OPERATION_BITS = sum(OPERATIONS.values())
# The operations that read what an earlier call has stored.
_OF_STORED = OPERATIONS["backward"] | OPERATIONS["selected_backward"] | OPERATIONS["nsa_score"]


def belongs_to(name, feature):
    """True if the operation that this bit of Problem.features asks for (0: the forward pass) has the tensor."""
    return bool(TENSOR_SPECS[name][6] & (feature or OF_FORWARD))


def always_there(name):
    """True if each problem of an operation that has the tensor has it."""
    return TENSOR_SPECS[name][3] is None and not TENSOR_SPECS[name][8]


def inputs_of(operation):
    """The inputs of an operation by name. Those that are always there come first; the last of these are what an earlier call stored."""
    names = [name for name in INPUTS if belongs_to(name, OPERATIONS[operation])]
    others = (OPERATION_BITS | OF_FORWARD) & ~_OF_STORED  # operations that Python lacks do not count
    return sorted(names, key=lambda name: (not always_there(name), not TENSOR_SPECS[name][6] & others))


def outputs_of(feature):
    """The outputs of the operation that these bits of Problem.features ask for, by name, in the table's order."""
    return [name for name in OUTPUTS if belongs_to(name, feature & OPERATION_BITS)]


def optional_outputs(feature):
    """The outputs of an operation that some calls do not want: an LSE, and scores of blocks beside lists."""
    return [name for name in outputs_of(feature) if name in ("lse", "block_scores")]


def member_of(name):
    """The member of attn_tensors that holds a tensor."""
    return TENSOR_SPECS[name][7]


def argument_of(name):
    """What a function calls a tensor: "o" for "saved_o"; an output O is written into "out"."""
    return {"o": "out", "cu_q": "cu_seqlens_q", "cu_k": "cu_seqlens_k"}.get(name) or member_of(name)


def asked_for(p, name):
    """True if a problem has the tensor."""
    field, feature = TENSOR_SPECS[name][3], TENSOR_SPECS[name][8]
    if not belongs_to(name, p.features & OPERATION_BITS) or (feature and not p.features & feature):
        return False
    if field == "ragged":
        return bool(p.ragged & (RAGGED_QUERIES if name == "cu_q" else RAGGED_KEYS))
    return field is None or (getattr(p, field) >= 0 if PROBLEM_FIELDS[field] == "dtype" else bool(getattr(p, field)))


@functools.cache
def sizes_of(feature):
    """The fields of Problem that are sizes of an operation's tensors."""
    return frozenset(size for name in TENSOR_SPECS if belongs_to(name, feature) for size in TENSOR_SPECS[name][2])


def has_groups(operation):
    """True if an operation has tensors of query heads and of KV heads."""
    return {"heads_q", "heads_kv"} <= sizes_of(OPERATIONS[operation])


def is_packed(p, name):
    """True if the batch entries of a tensor lie packed: a tensor of queries or keys, except a mask, a bias and its gradient."""
    side = _packable(name)
    return bool(side and p.ragged & side)


@functools.cache
def _packable(name):
    """The bit of Problem.ragged by which the entries of a tensor are packed; 0: they never are."""
    batch, _, rows, columns = TENSOR_SPECS[name][2]
    if batch != "batch" or columns == "seq_k" or not belongs_to(name, TENSOR_SPECS["cu_q"][6]):
        return 0
    return {"seq_q": RAGGED_QUERIES, "seq_k": RAGGED_KEYS}.get(rows, 0)


def in_pages(p, name):
    """True if a tensor is a pool of pages: K and V of a call with a block table."""
    return bool(p.page_size and _packable(name) == RAGGED_KEYS)


# The sizes that are no field of Problem. A cache has a store for each page, or without pages for each batch entry.
_SIZES = {
    None: lambda p: 1,
    "borders": lambda p: p.batch + 1,
    "stores": lambda p: p.pages if p.page_size else p.batch,
    "slots": lambda p: p.page_size or p.seq_k,
    "two": lambda p: 2,
    "blocks": lambda p: blocks_of(p),
}


def most_positions(p):
    """The largest length of a batch entry in positions: p.seq_k, unless keys stand for blocks (p.key_step)."""
    return p.seq_k * max(p.key_step, 1) + p.key_offset


def blocks_of(p):
    """The number of blocks of p.block keys, or of positions if keys stand for blocks; 0 if the operation has none."""
    return -(-most_positions(p) // p.block) if p.block else 0


def shape_of(p, name):
    """The sizes of a tensor as it lies in memory. Packed entries are one, with the rows of all of them. Keys in pages are
    (page, head, slot, column)."""
    shape = [_SIZES[size](p) if size in _SIZES else getattr(p, size) for size in TENSOR_SPECS[name][2]]
    if is_packed(p, name):
        shape[0], shape[2] = 1, p.total_q if _packable(name) == RAGGED_QUERIES else p.total_k
    if in_pages(p, name):
        shape[0], shape[2] = p.pages, p.page_size
    return tuple(shape)


def stored_shape(p, name, view):
    """shape_of() an output, but 1 where one element stands for all of a dimension by a stride of 0: the gradient of a bias that
    is stored once is a sum."""
    return tuple(1 if n > 1 and stride == 0 else n for n, stride in zip(shape_of(p, name), view.stride))


def dimensions_of(name, packed=False):
    """A tensor without the dimensions that it does not have: an LSE has no columns, and a sink is
    one number for each head. If packed, Q, K, V and O are (row, head, column), and an LSE is (head,
    row)."""
    there = [i for i, size in enumerate(TENSOR_SPECS[name][2]) if size is not None]
    if not packed:
        return there
    return [2, 1, 3] if len(there) == 4 else [1, 2]


def format_of(p, name):
    """The format of a tensor's elements: "f16", "bf16", "f32", "bool", "i64" or "i32"."""
    element = TENSOR_SPECS[name][1]
    if element == "index_dtype":
        return INDEX_TYPES[p.index_dtype]
    return DTYPES[getattr(p, element)] if element in PROBLEM_FIELDS else element


@functools.cache
def features_of(operation):
    """The features that an operation may have, each with the parameters that a function then needs."""
    of = {}
    for word, bit in FEATURE_BITS.items():
        tensors = [name for name, spec in TENSOR_SPECS.items() if spec[8] == bit]
        own = [name for name in tensors if belongs_to(name, OPERATIONS[operation])]
        of_sizes = not tensors and (operation == "forward" or (operation, word) == ("backward", "key_step"))
        if own or word == "int32" or of_sizes:
            of[word] = tuple(argument_of(name) for name in own if name in INPUTS) + _BESIDE.get(word, ())
    return {**of, "paged": ()} if operation == "copy_pages" else of


# By feature: the parameters that a function needs beside the feature's own inputs.
_BESIDE = {"paged": ("key_lengths",), "dbias": ("bias",), "dsink": ("sink",)}
