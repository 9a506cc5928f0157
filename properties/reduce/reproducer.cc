#include "properties/reduce/reproducer.h"

#include <xxhash.h>

#include <bit>
#include <initializer_list>
#include <set>

#include "base/json.h"
#include "base/printable.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/words.h"
#include "reference/call/backend.h"

namespace attnfuzz {
namespace {

// Reads fields of an object. finish() fails if the object has fields that were not read. Keeps the first error.
class Reader {
 public:
  Reader(const Json& object, std::string path) : object_(object), path_(std::move(path)) {}

  bool good() const { return error_.empty(); }
  const std::string& error() const { return error_; }
  void fail(const std::string& message) {
    if (error_.empty()) error_ = message;
  }

  const Json* field(const char* name, bool required) {
    known_.insert(name);
    const auto it = object_.find(name);
    if (it != object_.end()) return &*it;
    if (required) fail(path_ + name + " is missing");
    return nullptr;
  }
  void text(const char* name, bool required, std::string* out) {
    const Json* value = field(name, required);
    if (value == nullptr) return;
    if (!value->is_string()) return fail(path_ + name + " is " + brief(*value) + ", must be a string");
    *out = value->get<std::string>();
  }
  void texts(const char* name, std::vector<std::string>* out) {
    const Json* value = field(name, false);
    if (value == nullptr) return;
    if (!value->is_array())
      return fail(path_ + name + " is " + brief(*value) + ", must be an array of strings");
    for (const Json& item : *value) {
      if (!item.is_string()) return fail(path_ + name + " holds " + brief(item) + ", must hold strings");
      out->push_back(item.get<std::string>());
    }
  }
  void finish() {
    for (const auto& [name, value] : object_.items()) {
      if (!known_.contains(name)) fail(path_ + printable(name, 60) + " is not a field of a reproducer");
    }
  }

 private:
  const Json& object_;
  std::string path_, error_;
  std::set<std::string> known_;
};

std::string padded_hex(uint64_t x) {
  const std::string digits = hex(x);
  return std::string(16 - digits.size(), '0') + digits;
}

bool read_hex(const std::string& text, uint64_t* out) {
  if (text.size() != 16) return false;
  *out = 0;
  for (const char ch : text) {
    const int digit = ch >= '0' && ch <= '9' ? ch - '0' : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
    if (digit < 0) return false;
    *out = *out << 4 | static_cast<uint64_t>(digit);
  }
  return true;
}

void read_build(const Json& value, Reproducer* r, Reader* outer) {
  if (!value.is_object()) return outer->fail("build is " + brief(value) + ", must be an object");
  Reader reader(value, "build.");
  reader.text("hash", false, &r->build_hash);
  reader.text("compiler", false, &r->compiler);
  reader.text("flags", false, &r->flags);
  reader.finish();
  if (!reader.good()) outer->fail(reader.error());
}

void read_digests(const Json& value, Reproducer* r, Reader* outer) {
  if (!value.is_object()) return outer->fail("digests is " + brief(value) + ", must be an object");
  for (const auto& [name, digest] : value.items()) {
    size_t t = 0;
    while (t < kTensorCount && name != kTensorNames[t]) ++t;
    if (t == kTensorCount) return outer->fail("digests." + printable(name, 60) + " is not a tensor");
    if (!digest.is_string() || !read_hex(digest.get<std::string>(), &r->digests[t])) {
      return outer->fail("digests." + printable(name, 60) + " is " + brief(digest) +
                         ", must be 16 lower-case hexadecimal digits");
    }
  }
}

// A plug-in's file name without its folder, which says nothing about a bug.
std::string file_of(const std::string& kernel) { return kernel.substr(kernel.find_last_of('/') + 1); }

// The order of magnitude of a size: 0, 1, 2..3, 4..7, ...
int magnitude(int64_t n) { return std::bit_width(static_cast<uint64_t>(n < 0 ? 0 : n)); }

}  // namespace

bool is_plug_in(const std::string& kernel) { return kernel.find('/') != kernel.npos; }

std::string replay_line(const std::string& file, const std::string& kernel, const std::string& peer,
                        const std::vector<std::string>& before) {
  std::string files;
  for (const std::string& one : before) files += shell_word(one) + " ";
  const auto named = [](const char* option, const std::string& one) {
    return is_plug_in(one) ? option + shell_word(one) : "";
  };
  return "attnfuzz replay " + files + shell_word(file) + named(" --kernel ", kernel) + named(" --peer ", peer);
}

std::string encode(const Reproducer& r, const std::string& file_name) {
  Json json;
  json["replay"] = replay_line(file_name, r.kernel, r.peer);
  json["message"] = r.message;
  json["about"] = describe(r.c);
  json["kind"] = r.kind;
  if (!r.shape.empty()) json["shape"] = r.shape;
  if (!r.needs.empty()) json["needs"] = r.needs;
  if (!r.indifferent.empty()) json["indifferent"] = r.indifferent;
  json["case"] = json_of(encode(r.c));
  json["property"] = r.property;
  json["kernel"] = r.kernel;
  if (!r.peer.empty()) json["twin"] = r.peer;
  json["backend"] = backend_name(r.backend);
  if (!r.path.empty()) json["path"] = r.path;
  if (!r.device.empty()) json["device"] = r.device;
  Json build = Json::object();
  if (!r.build_hash.empty()) build["hash"] = r.build_hash;
  if (!r.compiler.empty()) build["compiler"] = r.compiler;
  if (!r.flags.empty()) build["flags"] = r.flags;
  if (!build.empty()) json["build"] = build;
  Json digests = Json::object();
  for (size_t t = 0; t < kTensorCount; ++t) {
    if (r.digests[t] != 0) digests[kTensorNames[t]] = padded_hex(r.digests[t]);
  }
  if (!digests.empty()) json["digests"] = digests;
  json["reproducer"] = Reproducer::kFormat;
  return json_text(json, 2) + "\n";
}

std::variant<Reproducer, DecodeError> decode_reproducer(std::string_view text) {
  const auto parsed = parse_json(text);
  if (const auto* error = std::get_if<DecodeError>(&parsed)) return *error;
  const Json& json = std::get<Json>(parsed);
  if (!json.is_object()) return DecodeError{"holds " + brief(json) + ", must be one JSON object"};
  if (!json.contains("reproducer")) {
    return DecodeError{
        "reproducer is missing: it holds the format version; this may be a bare case or another file"};
  }

  Reproducer r;
  Reader reader(json, "");
  const Json& format = *reader.field("reproducer", true);
  if (!format.is_number_integer() || format != Reproducer::kFormat) {
    return DecodeError{"reproducer is " + brief(format) + ", this version reads format " +
                       std::to_string(Reproducer::kFormat)};
  }
  std::string derived;  // derived fields, written again by encode()
  reader.text("replay", false, &derived);
  reader.text("about", false, &derived);
  reader.text("message", true, &r.message);
  reader.text("kind", true, &r.kind);
  reader.text("shape", false, &r.shape);
  if (const Json* needs = reader.field("needs", false)) {
    try {
      needs->get_to(r.needs);
    } catch (const std::exception& error) {
      reader.fail("needs is " + brief(*needs) + ", must be an array of needs: " + error.what());
    }
  }
  reader.texts("indifferent", &r.indifferent);
  reader.text("property", true, &r.property);
  reader.text("kernel", true, &r.kernel);
  reader.text("twin", false, &r.peer);
  reader.text("path", false, &r.path);
  reader.text("device", false, &r.device);
  std::string backend;
  reader.text("backend", true, &backend);
  if (reader.good() && backend != "cpu" && backend != "cuda") {
    reader.fail("backend is " + brief(Json(backend)) + ", must be \"cpu\" or \"cuda\"");
  }
  r.backend = backend == "cuda" ? ATTN_CUDA : ATTN_CPU;
  if (const Json* build = reader.field("build", false)) read_build(*build, &r, &reader);
  if (const Json* digests = reader.field("digests", false)) read_digests(*digests, &r, &reader);
  if (const Json* recipe = reader.field("case", true)) {
    auto decoded = decode(recipe->dump(-1, ' ', false, Json::error_handler_t::replace));
    if (auto* error = std::get_if<DecodeError>(&decoded)) {
      reader.fail("case: " + error->message);
    } else {
      r.c = std::get<Case>(std::move(decoded));
    }
  }
  reader.finish();
  if (!reader.good()) return DecodeError{reader.error()};
  return r;
}

std::string dedupe_key(const Reproducer& r) {
  const Problem& p = r.c.problem;
  std::string key =
      file_of(r.kernel) + "|" + r.kind + "|" + r.c.build_kind + "|" +
      cat(magnitude(p.seq_q), " ", magnitude(p.seq_k), " ", magnitude(p.dim_qk), " ", magnitude(p.dim_v));
  for (const ShrinkToggle& feature : shrink_toggles()) {
    if (feature.present(r.c)) key += cat("|", feature.name);
  }
  if (p.causal && p.align == ATTN_BOTTOM_RIGHT) key += "|bottom-right";
  if (p.mask) key += "|" + cat(static_cast<int>(p.mask->visible.kind));
  if (p.bias) key += "|" + cat(static_cast<int>(p.bias->kind), " ", static_cast<int>(p.bias->finite.kind));
  return key;
}

std::string reproducer_name(const Reproducer& r) {
  // A plug-in is named by its path.
  std::string kernel = file_of(r.kernel);
  kernel = kernel.substr(0, std::min<size_t>(kernel.find('.'), 80));
  const auto sane = [](std::string text) {
    for (char& ch : text) {
      const bool keep =
          (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') || ch == '_';
      if (!keep) ch = '-';
    }
    return text.empty() ? std::string("unknown") : text;
  };
  const std::string key = dedupe_key(r);
  return sane(kernel) + "-" + sane(r.kind.substr(0, 80)) + "-" +
         padded_hex(XXH3_64bits(key.data(), key.size())).substr(0, 6);
}

}  // namespace attnfuzz
