"""A small cache in Python that keeps keys and values itself.

    attnfuzz sequence ./cache.py:Concatenated --cases 1000
"""

import numpy as np

import attnfuzz


@attnfuzz.cache(
    memory="own",
    errors=attnfuzz.Errors(accumulator="ffma", p="fp32", exp="fast_expf", log="logf", rcp="exact", scale="separate"),
    domain=attnfuzz.Domain(dtypes=("f16",)))
class Concatenated:
    """K and V of each sequence in one array, in NumPy, fp32"""

    def __init__(self, setup):
        self.setup, self.held = setup, {}

    def new(self, sequence):
        self.held[sequence] = [np.zeros((self.setup.heads_kv, 0, d)) for d in (self.setup.dim_qk, self.setup.dim_v)]

    def fork(self, source, sequence):
        self.held[sequence] = self.held[source]  # arrays are replaced, never written

    def truncate(self, sequence, length):
        self.held[sequence] = [rows[:, :length] for rows in self.held[sequence]]

    def free(self, sequence):
        del self.held[sequence]

    def append(self, p, k_new, v_new, sequences):
        for b, s in enumerate(sequences):
            longer = [np.concatenate([old, new[b]], axis=1) for old, new in zip(self.held[s], (k_new, v_new))]
            self.held[s] = [rows[:, :self.setup.capacity] for rows in longer]

    def attend(self, p, q, sequences):
        o, lse = np.zeros((p.batch, p.heads_q, p.seq_q, p.dim_v)), np.zeros((p.batch, p.heads_q, p.seq_q))
        for b, s in enumerate(sequences):
            k, v = (np.repeat(rows.astype(np.float32), p.heads_q // p.heads_kv, axis=0) for rows in self.held[s])
            x = q[b].astype(np.float32) @ k.swapaxes(1, 2) * np.float32(p.scale)
            # The queries are the last positions of the sequence. If it is shorter, the first ones see nothing.
            keys, positions = np.arange(k.shape[1]), np.arange(p.seq_q)[:, None] + k.shape[1] - p.seq_q
            x = np.where(keys <= positions, x, -np.inf)
            top = x.max(axis=-1, keepdims=True, initial=-np.inf)
            e = np.exp(x - np.where(np.isinf(top), 0, top))
            total = e.sum(axis=-1, keepdims=True)
            o[b] = e @ v / np.where(total == 0, 1, total)
            with np.errstate(divide="ignore"):
                lse[b] = (np.log(total) + top)[..., 0]
        return o, lse
