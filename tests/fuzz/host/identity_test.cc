// Tests the build identity: if a header is edited and nothing is rebuilt, the library is stale.
#include "base/identity/identity.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/identity/command.h"
#include "base/mirror.h"
#include "fuzz/host/freshness.h"
#include "tests/fuzz/fakes/open_fake.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Pair;

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

std::string name_all(const Identity& id) {
  std::string names;
  for (const auto& [name, hash] : id.files) names += name + " ";
  return names;
}

// A source tree of one kernel and one header, built as attnfuzz_add_kernel would.
class Tree : public ::testing::Test {
 protected:
  void SetUp() override {
    // The identity runs the compiler, and a machine that only got a bundle has none.
    if (std::system((std::string(ATTNFUZZ_CXX) + " --version >/dev/null 2>&1").c_str()) != 0) {
      GTEST_SKIP() << "needs the compiler, " ATTNFUZZ_CXX;
    }
    char name[] = "/tmp/attnfuzz-identity-XXXXXX";
    ASSERT_TRUE(mkdtemp(name));
    root_ = name;
    for (const char* header : {"kernels/attention.h", "kernels/identity.h"}) {
      fs::create_directories(root_ / "kernels");
      fs::copy_file(fs::path(ATTNFUZZ_SOURCE) / header, root_ / header);
    }
    put(root_ / "kernels/my words.h", "inline const char *word() { return \"kernel\"; }\n");
    put(root_ / "kernels/kernel.cc",
        "#include \"kernels/my words.h\"\n#include \"kernels/identity.h\"\n"
        "static const attn_kernel kernel = [] {\n  attn_kernel k = {};\n  k.size = sizeof k;\n  k.abi = "
        "ATTN_ABI;\n"
        "  k.name = word();\n  k.build = &attn_build_identity;\n"
        "  k.plan = [](const attn_problem *, const attn_tensors *, const attn_env *, attn_plan *, char *, "
        "uint64_t)"
        " { return ATTN_UNSUPPORTED; };\n"
        "  k.run = [](const attn_problem *, const attn_tensors *, const attn_plan *, const attn_env *)"
        " { return ATTN_OK; };\n  return k;\n}();\n"
        "extern \"C\" const attn_kernel *attn_kernel_at(uint32_t i) { return i ? nullptr : &kernel; }\n");
    commands("-O1");
  }
  void TearDown() override { fs::remove_all(root_); }

  void commands(const std::string& flags) {
    const std::string dir = build().string();
    put(build() / "compile_commands.json",
        "[{\"directory\": \"" + dir + "\", \"file\": \"" + (root_ / "kernels/kernel.cc").string() +
            "\", \"command\": \"" ATTNFUZZ_CXX " -I" + root_.string() + " " + flags +
            " -std=c++20 -fPIC -o attn_kernel_cpu.dir/kernel.cc.o -c " +
            (root_ / "kernels/kernel.cc").string() + "\"}, {\"directory\": \"" + dir +
            "\", \"file\": \"other.cc\", \"command\": \"false -o other.o -c x\"}]");
  }
  fs::path build() const { return root_ / "build"; }
  Identity identity() const {
    return identify({.root = root_.string(),
                     .build = build().string(),
                     .commands = (build() / "compile_commands.json").string(),
                     .objects = {"attn_kernel_cpu.dir/"},
                     .skip = ""});
  }
  // Compiles kernel and identity into a library, and asks a worker what it is.
  KernelInfo built() const {
    const std::string include = "-I" + root_.string();
    put(build() / "identity.c", as_c(identity()));
    output_of({ATTNFUZZ_CC, include, "-fPIC", "-c", "identity.c", "-o", "identity.o"}, build().string());
    output_of({ATTNFUZZ_CXX, include, "-std=c++20", "-fPIC", "-shared", "../kernels/kernel.cc", "identity.o",
               "-o", "kernel.so"},
              build().string());
    WorkerOptions options = fake_options("");
    options.library = (build() / "kernel.so").string();
    std::string error;
    const auto target = open_target(options, &error);
    EXPECT_TRUE(target) << error;
    return target ? target->info() : KernelInfo{};
  }
  fs::path root_;
};

TEST_F(Tree, NamesTheFilesThatTheCompilerRead) {
  const Identity id = identity();
  EXPECT_EQ(name_all(id), "kernels/attention.h kernels/identity.h kernels/kernel.cc kernels/my words.h ");
  EXPECT_EQ(id.files[3].second, file_hash((root_ / "kernels/my words.h").string()));
  EXPECT_THAT(id.compiler, HasSubstr("clang version"));
  EXPECT_EQ(id.flags, "-I<root> -O1 -std=c++20 -fPIC");
  EXPECT_EQ(id.hash.size(), 32u);
  EXPECT_THAT(as_depfile(id, "x.c"), HasSubstr("kernels/my\\ words.h"));
}

// g++ compiles copies of the sources in a mirror. The identity names their originals, and these are checked for
// changes.
TEST_F(Tree, NamesTheOriginalsOfCopies) {
  const std::string header = (root_ / "kernels/my words.h").string();
  const std::string copy = mirrored(build().string(), header);
  fs::create_directories(fs::path(copy).parent_path());
  fs::copy_file(header, copy);
  commands("-iquote " + mirrored(build().string(), root_.string()));
  const Identity id = identity();
  EXPECT_EQ(name_all(id), "kernels/attention.h kernels/identity.h kernels/kernel.cc kernels/my words.h ");
  EXPECT_EQ(id.files[3].second, file_hash(header));
  std::ofstream(header, std::ios::app) << "// not copied yet\n";
  EXPECT_EQ(identity().files[3].second, file_hash(header));
}

TEST_F(Tree, HashesSourcesAndFlags) {
  const std::string first = identity().hash;
  EXPECT_EQ(identity().hash, first);
  commands("-O3");
  EXPECT_NE(identity().hash, first);
  commands("-O1");
  EXPECT_EQ(identity().hash, first);
  std::ofstream(root_ / "kernels/my words.h", std::ios::app) << "// a comment is a change too\n";
  EXPECT_NE(identity().hash, first);
}

TEST_F(Tree, IsTheSameInAnotherPlace) {
  const std::string first = identity().hash;
  const fs::path moved = root_.string() + "-moved";
  fs::rename(root_, moved);
  root_ = moved;
  commands("-O1");
  EXPECT_EQ(identity().hash, first);
}

TEST_F(Tree, AnEditWithoutABuildIsStale) {
  const KernelInfo info = built();
  EXPECT_EQ(info.name, "kernel");
  EXPECT_EQ(info.build.hash, identity().hash);
  EXPECT_EQ(freshness(info.build).freshness, Freshness::kFresh);
  EXPECT_FALSE(stale(info.build));
  EXPECT_FALSE(info.worker.hash.empty());
  EXPECT_THAT(info.worker.files,
              ::testing::Contains(Pair("kernels/executor/threads/scheduler.cc", ::testing::_)));
  EXPECT_FALSE(stale(info)) << "and so is this build's worker";

  std::ofstream(root_ / "kernels/my words.h", std::ios::app) << "// fixed\n";
  const auto why = stale(info.build);
  ASSERT_TRUE(why);
  EXPECT_THAT(stale(info).value_or(""), HasSubstr("kernels/my words.h has changed"));
  EXPECT_THAT(*why, HasSubstr("kernels/my words.h has changed since it was built"));

  fs::remove(root_ / "kernels/my words.h");
  EXPECT_THAT(stale(info.build).value_or(""), HasSubstr("kernels/my words.h is gone"));

  fs::remove_all(root_ / "kernels");
  EXPECT_FALSE(stale(info.build));
  EXPECT_EQ(freshness(info.build).freshness, Freshness::kNoTree);
  EXPECT_EQ(freshness(BuildInfo{}).freshness, Freshness::kUnknown);
}

// For instance a kernel outside of its test project, or a header that several projects share.
TEST_F(Tree, AFileOutsideIsCheckedToo) {
  const fs::path shared = root_.string() + "-shared";
  put(shared / "shared.h", "// as it was built\n");
  commands("-O1 -include " + (shared / "shared.h").string());
  const Identity id = identity();
  EXPECT_THAT(id.files, ::testing::Contains(Pair((shared / "shared.h").string(), ::testing::_)));
  EXPECT_THAT(as_depfile(id, "x.c"), HasSubstr("\n  " + (shared / "shared.h").string()));
  const BuildInfo info = {.hash = id.hash, .root = id.root, .files = id.files};
  EXPECT_EQ(freshness(info).freshness, Freshness::kFresh);
  put(shared / "shared.h", "// edited\n");
  EXPECT_THAT(stale(info).value_or(""), HasSubstr("/shared.h has changed since it was built"));
  fs::remove_all(root_ / "kernels");
  EXPECT_EQ(freshness(info).freshness, Freshness::kNoTree);
  fs::remove_all(shared);
}

// The library names the files, so other files than regular ones are not read: they may have no end.
TEST_F(Tree, ReadsOnlyRegularFiles) {
  EXPECT_EQ(file_hash("/dev/zero"), "");
  const fs::path fifo = root_ / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(file_hash(fifo.string()), "");
  const BuildInfo info = {.hash = "1", .root = root_.string(), .files = {{"fifo", "1"}, {"/dev/zero", "1"}}};
  EXPECT_EQ(freshness(info).freshness, Freshness::kStale);
  const fs::path large = root_ / "large";
  std::ofstream(large).close();
  fs::resize_file(large, kMostSourceBytes + 1);
  EXPECT_EQ(file_hash(large.string()), "");
}

// The plain library was built again and the sanitizer's was not. Their source tree need not be there.
TEST(BuiltDifferently, NamesAFileThatDiffersBetweenTheBuilds) {
  const BuildInfo plain = {.files = {{"kernel.cu", "new"}, {"words.h", "same"}}};
  const BuildInfo old = {.files = {{"kernel.cu", "old"}, {"words.h", "same"}}};
  const BuildInfo other = {.files = {{"words.h", "same"}, {"asan.h", "its own"}}};
  EXPECT_EQ(built_differently(plain, old), "kernel.cu");
  EXPECT_FALSE(built_differently(plain, other));
  EXPECT_FALSE(built_differently(plain, plain));
  EXPECT_FALSE(built_differently(plain, BuildInfo{}));
}

TEST_F(Tree, ThrowsIfAFileIsMissing) {
  const auto options = [&](std::string commands, std::string objects) {
    return IdentityOptions{.root = root_.string(),
                           .build = build().string(),
                           .commands = commands,
                           .objects = {objects},
                           .skip = ""};
  };
  EXPECT_THROW(identify(options("/nowhere.json", "x")), std::runtime_error);
  EXPECT_THROW(identify(options((build() / "compile_commands.json").string(), "no_such.dir/")),
               std::runtime_error);
  put(root_ / "kernels/kernel.cc", "#include \"kernels/missing.h\"\n");
  EXPECT_THROW(identity(), std::runtime_error);
}

TEST(Command, SplitsAsAShellWould) {
  EXPECT_THAT(split_command("cc  -DX=\\\"a\\ b\\\" '-I/a b' \"-D\\\"Y\\z\" \"\""),
              ::testing::ElementsAre("cc", "-DX=\"a b\"", "-I/a b", "-D\"Y\\z", ""));
}

TEST(Command, ReadsAMakeRule) {
  EXPECT_THAT(prerequisites("out.o: a.cc b\\ c.h \\\n  d$$e.h\\\n f.h\n"),
              ::testing::ElementsAre("a.cc", "b c.h", "d$e.h", "f.h"));
}

}  // namespace
}  // namespace attnfuzz
