// --probe of replay and explain: prints a kernel's intermediate values.
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

// Parses "BLOCK,WARP" or "X,Y,Z,WARP". Nothing for an empty text. Throws UserError.
std::optional<ProbeRequest> parse_probe(const std::string& text);

// Probes the variant that failed, or the case itself if none did.
ProbedCase probe(const Case& c, const Verdict& verdict, Target& target, const ProbeArguments& arguments);

std::string probe_text(const Case& c, const ProbedCase& probed);
std::string probe_json(const Case& c, const ProbedCase& probed);

}  // namespace attnfuzz
