"""Caches for tests/python/command/caches*.sh. If one has a bug, its first line says which."""

import numpy as np

import attnfuzz
from attnfuzz.targets.numpy_cache import DECLARED, Own, Pooled, rows_of


def own(cls):
    return attnfuzz.cache(memory="own", **DECLARED)(cls)


def pooled(cls):
    return attnfuzz.cache(**DECLARED)(cls)


@own
class pages_shared(Own):
    """a fork has the list of pages of its source, so each takes the other's new pages for its own"""

    def fork(self, source, sequence):
        super().fork(source, sequence)
        self.pages[sequence] = self.pages[source]


@own
class page_not_copied(Own):
    """appends write to a page that another sequence has, without a copy"""

    def page_to_write(self, sequence):
        pages = self.pages[sequence]
        if self.length[sequence] // self.setup.page_size == len(pages):
            pages.append(self.free_page())
        return pages[self.length[sequence] // self.setup.page_size]


@own
class length_kept(Own):
    """truncate gives pages back, and does not lower the length within the last page"""

    def truncate(self, sequence, length):
        length_before = self.length[sequence]
        super().truncate(sequence, length)
        if length % self.setup.page_size:
            self.length[sequence] = min(length_before, len(self.pages[sequence]) * self.setup.page_size)


@own
class table_of_plan(Own):
    """a replay uses the table that its first call had, as a captured graph may"""

    def plan(self, method, p):
        return {}

    def attend(self, p, q, sequences, plan, cu_seqlens_q=None):
        plan.setdefault("table", Own.table(self, sequences))
        self.table = lambda sequences: plan["table"]
        return super().attend(p, q, sequences, cu_seqlens_q)


@own
class table_of_another(Own):
    """the second entry of a call gets the first entry's last page"""

    def table(self, sequences):
        table, lengths = super().table(sequences)
        n = (lengths[0] - 1) // self.setup.page_size
        if len(lengths) > 1 and lengths.min() > 0:
            table[1, (lengths[1] - 1) // self.setup.page_size] = table[0, n]
        return table, lengths


@pooled
class copies_keys_alone(Pooled):
    """a copy of pages forgets the values"""

    def copy_pages(self, p, k, v, copies):
        k[copies[:, 1]] = k[copies[:, 0]]


@pooled
class plan_keeps_lengths(Pooled):
    """a replay uses the lengths that its first call had"""

    def plan(self, method, p):
        return []

    def attend(self, p, q, k, v, key_lengths, block_table, plan, cu_seqlens_q=None):
        plan.append(key_lengths.copy())
        return super().attend(p, q, k, v, plan[0], block_table, cu_seqlens_q)


@own
class raises_at_the_third(Own):
    """raises when a third sequence begins"""

    def new(self, sequence):
        super().new(sequence)
        if len(self.pages) > 2:
            raise IndexError("no room for a third")


@own
class refuses(Own):
    """right, and refuses some setups, forks and attends by name"""

    def __init__(self, setup):
        if setup.page_size == 1:
            raise attnfuzz.Unsupported("pages of one key")
        super().__init__(setup)

    def fork(self, source, sequence):
        if self.length[source] % 2:
            raise attnfuzz.Unsupported("a fork of an odd length")
        super().fork(source, sequence)

    def attend(self, p, q, sequences, cu_seqlens_q=None):
        if p.seq_q > 20:
            raise attnfuzz.Unsupported("more than 20 queries")
        return super().attend(p, q, sequences, cu_seqlens_q)


@own
class refuses_all(Own):
    """refuses all setups"""

    def __init__(self, setup):
        raise attnfuzz.Unsupported("no setup will do")


@own
class refuses_attends(Own):
    """refuses all attends, the only calls of a class with memory of its own that are judged"""

    def attend(self, p, q, sequences, cu_seqlens_q=None):
        raise attnfuzz.Unsupported("no attends")


@pooled
class attends_never(Pooled):
    """appends, and refuses all attends"""

    def attend(self, p, q, k, v, key_lengths, block_table, cu_seqlens_q=None):
        raise attnfuzz.Unsupported("no attends")


@pooled
class attends_rarely(Pooled):
    """appends, and refuses all attends over more than one key"""

    def attend(self, p, q, k, v, key_lengths, block_table, cu_seqlens_q=None):
        if key_lengths.max() > 1:
            raise attnfuzz.Unsupported("too many keys")
        return super().attend(p, q, k, v, key_lengths, block_table, cu_seqlens_q)


@own
class returns_from_free(Own):
    """returns something where nothing is due"""

    def free(self, sequence):
        super().free(sequence)
        return sequence


@own
class o_alone(Own):
    """returns no LSE, and does not say so"""

    def attend(self, p, q, sequences, cu_seqlens_q=None):
        return super().attend(p, q, sequences, cu_seqlens_q)[0]


@attnfuzz.cache(memory="own", **{**DECLARED, "domain": attnfuzz.Domain(features=("packed", "int32"), lse=False)})
class without_lse(Own):
    """right, and declares that it returns no LSE"""

    def attend(self, p, q, sequences, cu_seqlens_q=None):
        assert not p.want_lse
        return super().attend(p, q, sequences, cu_seqlens_q)[0]


@pooled
class merging(Pooled):
    """right, and merges"""

    def merge(self, p, o1, o2, lse1, lse2):
        with np.errstate(all="ignore"):
            top = np.maximum(lse1, lse2)
            shift = np.where(np.isneginf(top), 0, top)
            w1, w2 = (np.exp(lse - shift)[..., None] for lse in (lse1, lse2))
            total = w1 + w2
            o = (w1 * attnfuzz.as_float32(o1) + w2 * attnfuzz.as_float32(o2)) / np.where(total == 0, 1, total)
            return o.astype(np.float32), (np.log(total[..., 0]) + shift).astype(np.float32)


def writing(operation, *features):
    return attnfuzz.target(operation=operation, bf16="bits", domain=attnfuzz.Domain(features=features))


@writing("append", "paged", "packed", "int32")
def append(p, k, v, k_new, v_new, key_lengths, block_table=None, cu_seqlens_q=None):
    """right: an append as a function, with or without pages"""
    for b, length in enumerate(key_lengths.clip(0, p.seq_k)):
        for pool, new in ((k, k_new), (v, v_new)):
            for key, row in enumerate(rows_of(new, b, cu_seqlens_q)[: p.seq_k - length], length):
                page, slot = (b, key) if block_table is None else (block_table[b, key // p.page_size], key % p.page_size)
                pool[page, :, slot] = row


@writing("copy_pages", "paged", "int32")
def copy_pages(p, k, v, copies):
    """right: a copy of pages as a function"""
    Pooled.copy_pages(None, p, k, v, copies)
