// attnfuzz merge: merges campaigns that ran side by side into one folder.
#include "fuzz/slurm/merge.h"

#include <cstdio>

#include "base/printable.h"
#include "cli/options/command.h"
#include "cli/options/help.h"
#include "cli/print/campaign_print.h"
#include "cli/terminal/terminal.h"
#include "fuzz/report/report.h"

namespace attnfuzz {
namespace {

struct MergeArguments {
  std::vector<std::string> dirs;
  std::string out;
};

Exit run_merge(const MergeArguments& arguments) {
  std::vector<std::string> command = {"attnfuzz", "merge"};
  command.insert(command.end(), arguments.dirs.begin(), arguments.dirs.end());
  command.insert(command.end(), {"--out", arguments.out});
  const MergeSummary s = merge_campaigns(arguments.dirs, arguments.out, command);
  for (const std::string& one : s.left_out)
    std::fprintf(stderr, "attnfuzz: left out: %s\n", printable(one).c_str());
  emit("{}: {} campaign(s), {} job(s), {} corpus entries, {} finding(s); {} were found again by another\n",
       arguments.out, s.merged, s.shards, s.corpus, s.findings, s.same);
  const report::Report report = read_and_tell(arguments.out);
  return s.left_out.empty() ? static_cast<Exit>(report.status) : kBadUse;
}

}  // namespace

void add_merge(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("merge", "Merges the folders of campaigns that ran side by side into one");
  const auto arguments = std::make_shared<MergeArguments>();
  command
      ->add_option("dir", arguments->dirs,
                   "folders of campaigns; one that cannot be read is left out and named, with status 2")
      ->required();
  command->add_option("-o,--out", arguments->out, "folder to make; one from an earlier merge is replaced")
      ->required();
  add_footer(*command, "attnfuzz merge tasks/0 tasks/1 --out merged", kCampaignExitStatuses);
  command->callback([&action, arguments] { action = [arguments] { return run_merge(*arguments); }; });
}

}  // namespace attnfuzz
