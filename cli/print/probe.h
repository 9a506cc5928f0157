// --probe of replay and explain: a kernel's intermediates on paper.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "properties/explain/probe_case.h"

namespace attnfuzz {

struct ProbeArguments {
  CLI::Option* option = nullptr;
  std::string place;
  bool wanted() const { return option != nullptr && option->count() > 0; }
};
void add_probe_option(CLI::App& command, ProbeArguments& arguments);

// "BLOCK,WARP" or "X,Y,Z,WARP"; empty: nothing. Throws UserError.
std::optional<ProbeRequest> parse_probe(const std::string& text);

// Probes what failed, or the case itself if nothing did.
ProbedCase probe(const Case& c, const Verdict& verdict, Target& target, const ProbeArguments& arguments);

std::string probe_text(const Case& c, const ProbedCase& probed);
std::string probe_json(const Case& c, const ProbedCase& probed);

}  // namespace attnfuzz
