// The attnfuzz command. Each subcommand is one file with a function that declares its options on
// the app and sets the action to run.
//
//   void add_check(CLI::App& app, Action& action)
//
// Exit status: 0 it passed, 1 a failure was found or too little was judged, 2 bad use or a bad
// file. An interrupted check or campaign that had found nothing exits with 128 plus the signal's
// number.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <stdexcept>

namespace attnfuzz {

// The largest number of cases and the largest seed: JSON readers keep integers up to 2^53 exactly.
inline constexpr uint64_t kMostCounted = uint64_t{1} << 53;

enum Exit { kPassed = 0, kFound = 1, kBadUse = 2 };

// Bad use or a bad file: the message says what to do; the command exits with 2.
struct UserError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The work of the chosen subcommand, to be done once all arguments are parsed.
using Action = std::function<Exit()>;

void add_list(CLI::App& app, Action& action);
void add_limits(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
void add_replay(CLI::App& app, Action& action);
void add_reduce(CLI::App& app, Action& action);
void add_explain(CLI::App& app, Action& action);
void add_calibrate(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_campaign(CLI::App& app, Action& action);
void add_export(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);
void add_status(CLI::App& app, Action& action);
void add_sequence(CLI::App& app, Action& action);
void add_merge(CLI::App& app, Action& action);
void add_completion(CLI::App& app, Action& action);
void add_man(CLI::App& app, Action& action);
void add_nsa(CLI::App& app, Action& action);
void add_train_step(CLI::App& app, Action& action);

}  // namespace attnfuzz
