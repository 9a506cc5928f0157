// Makes the reproducer of a judged case, and the name by which a command calls its kernel (check.h).
#include "fuzz/check/check.h"
#include "fuzz/check/counts/kernel_path.h"
#include "fuzz/host/kernel_registry.h"
#include "properties/judge/target/peer.h"
#include "properties/memory/layout.h"

namespace attnfuzz {

std::string command_name(const KernelInfo& kernel) {
  std::string error;
  const auto own = find_kernel(kernel.name, {kernel.backend, kernel.build_kind}, &error);
  if (own && own->path == kernel.library) return kernel.name;
  return kernel.library + (kernel.library_kernels.size() > 1 ? ":" + kernel.name : "");
}

std::string peer_name(const Target& target) {
  const bool named = target.peer && target.peer->named() && target.peer->get() != nullptr;
  return named ? command_name(target.peer->get()->info()) : "";
}

Reproducer without_digests(const Case& c, const Verdict& verdict, const KernelInfo& kernel) {
  Reproducer r;
  r.c = c;
  r.property = verdict.property;
  r.kernel = command_name(kernel);
  r.backend = kernel.backend;
  r.build_hash = kernel.build.hash;
  r.compiler = kernel.build.compiler;
  r.flags = kernel.build.flags;
  r.device = kernel.device;
  r.kind = to_string(verdict.kind);
  r.message = verdict.message;
  r.shape = text_of(verdict.shapes);
  r.path = path_of(verdict.plan);
  return r;
}

std::variant<Reproducer, DecodeError> read_reproducer(const std::string& path, const ReadLimits& limits) {
  auto text = read_file(path, limits);
  if (auto* error = std::get_if<DecodeError>(&text)) return std::move(*error);
  auto decoded = decode_reproducer(std::get<std::string>(text));
  if (auto* error = std::get_if<DecodeError>(&decoded))
    error->message = path + " is no reproducer: " + error->message;
  return decoded;
}

Reproducer reproducer_of(const Case& c, const Verdict& verdict, const KernelInfo& kernel, Target& target) {
  Reproducer r = without_digests(c, verdict, kernel);
  r.peer = peer_name(target);
  r.digests = LaidOut(c, target.arena()).digests();
  return r;
}

}  // namespace attnfuzz
