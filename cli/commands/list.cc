// attnfuzz list: kernels, properties, builds, back ends.

#include "cli/open/open_kernel.h"
#include "cli/options/help.h"
#include "cli/terminal/terminal.h"
#include "fuzz/check/check.h"
#include "fuzz/check/counts/kernel_path.h"
#include "properties/judge/property.h"

namespace attnfuzz {
namespace {

Exit list() {
  emit("kernels\n");
  for (const KernelLibrary& library : our_kernels()) {
    std::string error;
    const auto target = open_target(worker_options(library), &error);
    const std::string label = library.name + " (" + backend_name(library.backend) + ")";
    if (target == nullptr) {
      print(beside(label, "cannot be used here: " + error));
      continue;
    }
    const KernelInfo& info = target->info();
    std::string more = "variants: 0 own choice";
    for (size_t i = 0; i < info.variants.size(); ++i)
      more += ", " + std::to_string(i + 1) + " " + info.variants[i];
    std::string paths;
    for (const std::string& path : paths_through(config_for(*target, {}), *target))
      paths += (paths.empty() ? "paths: " : ", ") + path;
    if (!paths.empty()) more += "\n" + paths;
    more += "\nbuild " + info.build.hash.substr(0, 12);
    if (!info.device.empty()) more += "; " + info.device;
    print(beside(label, info.description + "\n" + more));
  }
  emit("\nproperties\n");
  for (const Property* property : all_properties()) print(beside(property->name, property->statement));
  emit("\nbuilds\n");
  for (const BuildKind& build_kind : build_kinds()) print(beside(build_kind.name, build_kind.words));
  emit("\nback ends\n  cpu   the executor: CUDA's thread model on this machine\n");
  emit("  cuda  an NVIDIA GPU of compute capability 8.0 or later\n");
  return kPassed;
}

}  // namespace

void add_list(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("list", "Lists kernels, properties, builds and back ends");
  add_footer(*command, "attnfuzz list", {"they were listed"});
  command->callback([&] { action = list; });
}

}  // namespace attnfuzz
