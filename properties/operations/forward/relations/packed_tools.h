// Tools of the relations of packed batch entries and of pages.
#pragma once

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

// True if the plans promise the same arithmetic for a row. They may differ in fields that do not affect a row:
// the longest lengths, and the words "ragged" and "paged" of a path, which only say where rows are stored.
bool same_work_on_rows(Trial& trial, const Run& a, const Run& b);

// Compares query i of head h of two runs, for all heads: entry `b_a` of one and entry `b_b` of the other. The
// rows must have equal bits if the plans promise the same arithmetic for them.
bool entries_agree(Trial& trial, const Run& a, int64_t b_a, const Run& b, int64_t b_b, std::string_view what);

}  // namespace attnfuzz::relations
