// The files of a finding that is a sequence of calls: NAME.calls.json and the text of its issue, NAME.md.
#pragma once

#include <string>

#include "fuzz/campaign/store/archive.h"
#include "properties/sequences/reduce/chain.h"

namespace attnfuzz {

// "5 steps on 2 pages: new s0; append 3 tokens to s0; ...": the last sequence of calls, in one line of at most
// some 300 characters.
std::string sequences_in_words(const sequences::Chain& chain);

// The name of its files: "cache-calls-wrong-1a2b3c".
std::string sequences_name(const std::string& folder, const Finding& finding);

// The command that runs the file again, on the target that failed.
std::string sequence_replay_line(const std::string& file, const TargetRecord& target);

// Replaces each file as a whole. `text`: of the file of calls. Throws std::system_error if a file cannot be
// written.
void write_sequence_files(const std::string& folder, const Finding& finding,
                          const sequences::ReducedChain& reduced, const std::string& text,
                          const CampaignHeader& header, const TargetRecord& target);

}  // namespace attnfuzz
