// Tools of the relations of packed batch entries and of pages.
#pragma once

#include <vector>

#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {

// An adapt(): packs the queries and keys of a case whose entries are dense. The lengths depend on the case's
// data.
bool pack(Case& c, const KernelInfo& kernel, std::string* why);

// An adapt(): puts the keys of a case without pages into pages, which depend on the case's data.
bool put_in_pages(Case& c, const KernelInfo& kernel, std::string* why);

// Calls entries_agree() for all entries of two runs of the same sizes.
bool all_entries_agree(Trial& trial, const Run& a, const Run& b, std::string_view what);

// The case of batch entry b alone, dense.
Case entry_alone(const Case& base, int64_t b);

// The same for an operation whose results have a column for each block of keys: seq_k stays, and a key length hides
// the keys that the entry does not have.
Case entry_alone_as_wide(const Case& base, int64_t b);

// Keeps the length of lists if the number of keys changes.
void keep_lists(Problem& p);

// Runs two batch entries alone, the last one and another one, and compares them with the same entries in the base.
// `agrees` compares entry b of the base with entry 0 of the other run, and ends the trial if they differ.
void compare_entries_alone(Trial& trial, Case (*alone)(const Case& base, int64_t b),
                           bool (*agrees)(Trial& trial, const Run& base, int64_t b, const Run& alone,
                                          std::string_view what));

// The keys of each batch entry whose contents a relation changes. Entries beyond the end of the list keep their
// keys.
using ChangedKeys = std::vector<KeyRange>;

// Keys to change in the first 16 entries. `range` chooses them from the keys of an entry, of which there is at
// least one. In half of the packed cases the keys of one entry change, so that no row of another entry may
// change.
ChangedKeys changed_keys(const Case& c, KeyRange (*range)(const Case& c, int64_t keys));

// The base with `value` in the last column of these keys, and in the first column of their values if there are
// any.
Case with_changed_keys(const Case& base, const ChangedKeys& keys, float value);

// True if query at.i of query head at.h sees one of these keys of its batch entry.
bool sees_any(const Case& c, const Row& at, const ChangedKeys& keys);

// True if the plans promise the same arithmetic for a row. They may differ in fields that do not affect a row:
// the longest lengths, and the words "ragged" and "paged" of a path, which only say where rows are stored.
bool same_work_on_rows(Trial& trial, const Run& a, const Run& b);
// The same, without a word in the verdict.
bool does_same_work_on_rows(const Run& a, const Run& b);

// Compares query i of head h of two runs, for all heads: entry `b_a` of one and entry `b_b` of the other. The
// rows must have equal bits if the plans promise the same arithmetic for them.
bool entries_agree(Trial& trial, const Run& a, int64_t b_a, const Run& b, int64_t b_b, std::string_view what);
// Compares the same rows within their bounds.
bool entries_are_near(Trial& trial, const Run& a, int64_t b_a, const Run& b, int64_t b_b, std::string_view what);

}  // namespace attnfuzz::relations
