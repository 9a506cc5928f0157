// Is a failing sequence of calls explained by a known finding?
//
//   std::set<std::string> words = words_of(known.last);          // {"append", "new", "truncate"}
//   if (const auto other = without_special(failing, words)) ...  // without its truncates
//
// The special parts of a finding are its kinds of steps other than new, append and attend, its relation, and
// packed or divided calls. If a failing chain passes without these parts, the finding explains it. If it still
// fails, it shows another bug. Then the chain without these parts is reduced, so that the reduction cannot end
// in the finding. explained.h has the same rule for cases.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "properties/sequences/session/session.h"

namespace attnfuzz {

std::set<std::string> words_of(const sequences::Session& session);

// The chain without its special parts that are among `words`; nullopt if it has none of them.
std::optional<sequences::Chain> without_special(const sequences::Chain& chain,
                                                const std::set<std::string>& words);

}  // namespace attnfuzz
