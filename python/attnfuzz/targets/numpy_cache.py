"""Two caches in NumPy for `attnfuzz sequence`: one works on the pools of each call, one has pages of its own."""

import numpy as np

import attnfuzz
from attnfuzz.targets.numpy_reference import ERRORS, attention

DECLARED = {"errors": ERRORS, "bf16": "bits", "domain": attnfuzz.Domain(features=("packed", "int32"))}


def rows_of(new, b, borders):
    """The new rows of a batch entry: (row, head, column)."""
    return new[b].swapaxes(0, 1) if borders is None else new[borders[b]:borders[b + 1]]


class Pooled:
    """a cache in NumPy, in the pools of each call"""

    def __init__(self, setup):
        pass

    def append(self, p, k, v, k_new, v_new, key_lengths, block_table, cu_seqlens_q=None):
        for b, length in enumerate(key_lengths):
            for pool, new in ((k, k_new), (v, v_new)):
                for key, row in enumerate(rows_of(new, b, cu_seqlens_q)[: p.seq_k - length], length):
                    pool[block_table[b, key // p.page_size], :, key % p.page_size] = row

    def copy_pages(self, p, k, v, copies):
        for pool in (k, v):
            pool[copies[:, 1]] = pool[copies[:, 0]]

    def attend(self, p, q, k, v, key_lengths, block_table, cu_seqlens_q=None):
        return attention.function(p, q, k, v, key_lengths=key_lengths, block_table=block_table, cu_seqlens_q=cu_seqlens_q)


class Own:
    """a cache in NumPy with pages of its own, which forks share until one of them writes"""

    def __init__(self, setup):
        self.setup, self.pages, self.length = setup, {}, {}
        self.users = np.zeros(setup.pages, int)
        shape = (setup.pages, setup.heads_kv, setup.page_size)
        self.k, self.v = (np.full((*shape, d), np.nan, np.float32) for d in (setup.dim_qk, setup.dim_v))

    def new(self, sequence):
        self.pages[sequence], self.length[sequence] = [], 0

    def fork(self, source, sequence):
        self.pages[sequence], self.length[sequence] = list(self.pages[source]), self.length[source]
        self.users[self.pages[source]] += 1

    def truncate(self, sequence, length):
        pages = self.pages[sequence]
        while len(pages) > -(-length // self.setup.page_size):
            self.users[pages.pop()] -= 1
        self.length[sequence] = length

    def free(self, sequence):
        self.truncate(sequence, 0)
        del self.pages[sequence], self.length[sequence]

    def free_page(self):
        page = int(np.argmin(self.users))
        self.users[page] = 1
        return page

    def page_to_write(self, sequence):
        """The page of the next key. If another sequence has it too, it is copied first."""
        pages, n = self.pages[sequence], self.length[sequence] // self.setup.page_size
        if n == len(pages):
            pages.append(self.free_page())
        elif self.users[pages[n]] > 1:
            self.users[pages[n]] -= 1
            page = self.free_page()
            self.k[page], self.v[page] = self.k[pages[n]], self.v[pages[n]]
            pages[n] = page
        return pages[n]

    def append(self, p, k_new, v_new, sequences, cu_seqlens_q=None):
        for b, s in enumerate(sequences):
            for k, v in zip(rows_of(k_new, b, cu_seqlens_q), rows_of(v_new, b, cu_seqlens_q)):
                if self.length[s] < self.setup.capacity:
                    place = (self.page_to_write(s), slice(None), self.length[s] % self.setup.page_size)
                    self.k[place], self.v[place] = attnfuzz.as_float32(k), attnfuzz.as_float32(v)
                    self.length[s] += 1

    def table(self, sequences):
        table = np.zeros((len(sequences), self.setup.pages_per_sequence), int)
        for row, s in zip(table, sequences):
            row[: len(self.pages[s])] = self.pages[s]
        return table, np.array([self.length[s] for s in sequences])

    def attend(self, p, q, sequences, cu_seqlens_q=None):
        table, lengths = self.table(sequences)
        return attention.function(p, q, self.k, self.v, key_lengths=lengths, block_table=table, cu_seqlens_q=cu_seqlens_q)


pooled = attnfuzz.cache(**DECLARED)(Pooled)
own = attnfuzz.cache(memory="own", **DECLARED)(Own)
