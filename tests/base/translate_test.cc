// Tests that unedited CUDA source becomes code that a host compiler takes, and that nothing else changes.
#include "kernels/cuda_source/translate/translate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>

#include "base/mirror.h"

namespace attnfuzz {
namespace {

std::string translated(const std::string& text) { return translate(text, "a.cu"); }
bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
int lines(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

TEST(Translate, OtherCodeStaysAsItIs) {
  for (const char* text : {
           "// kernel<<<1, 2>>>(x);\n",
           "/* kernel<<<1, 2>>>(x); */",
           "const char* s = \"kernel<<<1, 2>>>(x)\";",
           "auto s = R\"(extern __shared__ float x[];)\";",
           "std::cout << operator<<<char>(std::cout, \"x\");",
           "int x = a << 3 >> 1; std::vector<std::vector<std::pair<int, int>>> y;",
           "__shared__ float tile[64]; extern int x[];",
           "int asm_ = 0; char c = '\"'; int big = 1'000'000;",
       })
    EXPECT_EQ(translated(text), text);
}

TEST(Translate, ALaunchKeepsItsKernelArgumentsAndLines) {
  for (const char* kernel : {"kernel", "ns::kernel<T, 64>", "::kernel", "kernel<(3 > 2), std::array<int, 2>>",
                             "table[i + 1]", "self->kernel", "pick<int>(2)"}) {
    const std::string text = "void f() {\n  if (x) " + std::string(kernel) +
                             "\n    <<<dim3(1, 2), n < 3 ? 1 : 2, sizeof(float) * 4,\n stream>>>(q, n);\n}\n";
    const std::string result = translated(text);
    EXPECT_TRUE(holds(result, "if (x) ::simt::launch_of([&](auto simt_use) -> decltype(simt_use(" +
                                  std::string(kernel) + "))"))
        << result;
    EXPECT_TRUE(holds(result, "dim3(1, 2), n < 3 ? 1 : 2, sizeof(float) * 4,\n stream)(q, n);")) << result;
    EXPECT_EQ(lines(result), lines(text)) << result;
  }
}

TEST(Translate, AKernelChecksItsLaunchBounds) {
  const std::string check = "{ ::simt::check_launch_bounds(static_cast<unsigned>(";
  for (const char* head : {"__global__ void __launch_bounds__(kWarps * 32, 2) f(int (*x)[2])",
                           "__global__ __launch_bounds__(kWarps * 32)\nvoid f<float>(A<(1 > 2)> x)",
                           "void __launch_bounds__(kWarps * 32) __attribute__((cold)) f()"}) {
    const std::string text = std::string(head) + " {\n  g();\n}\n", result = translated(text);
    EXPECT_TRUE(holds(result, std::string(head) + " " + check + "kWarps * 32), ::simt::simt_here());\n  g();"))
        << result;
    EXPECT_EQ(lines(result), lines(text)) << result;
  }
  EXPECT_TRUE(holds(translated("void __launch_bounds__(max(1, 2), 3) f() {}"), check + "max(1, 2))"));
  for (const char* text : {"void __launch_bounds__(128) f(int x);\nvoid g() { f(1); }",
                           "#define KERNEL __launch_bounds__(128)\nvoid f() {}"})
    EXPECT_EQ(translated(text), text);
}

TEST(Translate, ALaunchMayBeFormattedLikeShifts) {
  const std::string plain = translated("void f() { kernel<<<pick<int>(n), 32>>>(q); }");
  for (const char* text :
       {"void f() { kernel<< <pick<int>(n), 32>> >(q); }", "void f() { kernel<< <pick<int>(n), 32>>>(q); }"})
    EXPECT_EQ(translated(text), plain);
}

TEST(Translate, AKernelLaunchedByItsAddressKeepsItsType) {
  for (const char* kernel :
       {"(const void*)", "(void *)", "(void const*)", "reinterpret_cast<const void*>", "(const void*)&", ""}) {
    const std::string text = std::string("cudaLaunchKernel(") + kernel + "(f<64>), grid, 128, args, 0, s);";
    EXPECT_TRUE(translated(text).starts_with("cudaLaunchKernel((f<64>), ") ||
                translated(text).starts_with("cudaLaunchKernel(&(f<64>), "))
        << translated(text);
  }
  EXPECT_EQ(translated("cudaLaunchKernel((pick)(n), grid);"), "cudaLaunchKernel((pick)(n), grid);");
}

TEST(Translate, AMacroMayHoldALaunch) {
  const std::string text = "#define RUN(k, n) \\\n  k<n> \\\n  <<<grid, 128>>>(q, n)\nRUN(f, 3);\n";
  const std::string result = translated(text);
  EXPECT_TRUE(holds(result, "simt_use(k<n>)")) << result;
  EXPECT_EQ(lines(result), lines(text));
}

TEST(Translate, DynamicSharedMemoryBecomesAPointer) {
  EXPECT_EQ(translated("{ extern __shared__ __align__(16) float4 x[]; }"),
            "{ float4* const x = static_cast<float4*>(::simt::dynamic_shared(::simt::simt_here())); }");
  EXPECT_EQ(translated("namespace a { extern __shared__ float x[]; }"),
            "namespace a { static float* x = nullptr; static const ::simt::DynamicShared simt_of_x(&x); }");
  EXPECT_EQ(translated("{ __shared__ alignas(16) float x[2]; }"), "{ __shared__ __align__(16) float x[2]; }");
}

TEST(Translate, OneInlineIsEnough) {
  EXPECT_EQ(translated("static inline __device__ __forceinline__ float f(float x);"),
            "static  __device__ __forceinline__ float f(float x);");
  EXPECT_EQ(translated("template <int N> __forceinline__ __inline__ void f();"),
            "template <int N> __forceinline__  void f();");
  for (const char* text :
       {"inline int f(); __forceinline__ int g();", "#define A inline\n__forceinline__ int g();",
        "#define A __device__ __forceinline__\n#define B __device__ inline\n"})
    EXPECT_EQ(translated(text), text);
}

TEST(Translate, KernelsAreFoundByName) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "translate_kernels";
  std::filesystem::create_directories(folder / "inner");
  std::ofstream(folder / "a.cu")
      << "#include \"b.cuh\"\n// __global__ void not_this(int);\n"
         "template <int N> __global__ void __launch_bounds__(128) first(float* x) {}\n"
         "void host(float* x) { first<4><<<1, 128>>>(x); }\n";
  std::ofstream(folder / "inner/b.cuh")
      << "extern \"C\" __global__ __attribute__((used)) void second(int n);\n";
  const std::vector<std::string> kernels =
      kernels_of({(folder / "a.cu").string()}, {(folder / "inner").string()});
  EXPECT_EQ(kernels, (std::vector<std::string>{"first", "second"}));
}

// g++ reads the copies instead of the originals.
TEST(Translate, AMirrorHoldsACopyOfEachFileThatIsRead) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "translate_mirror";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder / "inner");
  const auto at = [&](const char* name) { return (folder / name).string(); };
  std::ofstream(at("a.cu"))
      << "\xEF\xBB\xBF#include \"b.cuh\"\nvoid host(float* x) { first<<<1, 128>>>(x); }\n";
  std::ofstream(at("inner/b.cuh")) << "#include <c.h>\n__global__ void first(float* x);\n";
  std::ofstream(at("inner/c.h")) << "int c;\n";
  std::ofstream(at("inner/d.h")) << "int nobody_includes_it;\n";
  std::filesystem::create_directories(folder / "empty");
  const std::vector<std::string> folders = {at("inner"), at("empty")};
  const auto write = [&] { write_mirror(translate_all({at("a.cu")}, folders), folders, at("out")); };
  const auto copy = [&](const char* name) {
    std::ifstream in(mirrored(at("out"), at(name)));
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  write();
  EXPECT_EQ(copy("a.cu").find("#line 1 \"" + at("a.cu") + "\"\n#include \"b.cuh\"\n"), 0u) << copy("a.cu");
  EXPECT_TRUE(holds(copy("a.cu"), "::simt::launch_of")) << copy("a.cu");
  EXPECT_EQ(copy("inner/c.h"), "#line 1 \"" + at("inner/c.h") + "\"\nint c;\n");
  EXPECT_EQ(copy("inner/d.h"), "");
  EXPECT_TRUE(std::filesystem::is_directory(mirrored(at("out"), at("empty"))));
  EXPECT_EQ(original_of(mirrored(at("out"), at("a.cu"))), at("a.cu"));
  EXPECT_EQ(original_of(at("a.cu")), std::nullopt);
  // If a header is not included any more, its copy is deleted.
  std::ofstream(at("inner/b.cuh")) << "__global__ void first(float* x);\n";
  write();
  EXPECT_EQ(copy("inner/c.h"), "");
}

// A file may #include IMPL, a macro that another file defines as a file name. Only if one file has such a line
// are the strings of macros read as file names.
TEST(Translate, AMacroMayNameAnIncludedFile) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "translate_by_macro";
  std::filesystem::create_directories(folder);
  const auto at = [&](const char* name) { return (folder / name).string(); };
  std::ofstream(at("a.cu")) << "#include \"config.h\"\n#include IMPL\n";
  std::ofstream(at("b.cu")) << "#include \"config.h\"\n";
  std::ofstream(at("config.h")) << "#define IMPL \"impl.cuh\"\n#define TITLE \"a.bin\"\n";
  std::ofstream(at("impl.cuh")) << "void host() { first<<<1, 128>>>(); }\n";
  std::ofstream(at("a.bin")) << "void host() { first<<<1, 128>>>(); }\n";
  const auto by_macro = translate_all({at("a.cu")}, {});
  ASSERT_EQ(by_macro.size(), 3u);
  EXPECT_TRUE(holds(by_macro.at(at("impl.cuh")), "::simt::launch_of"));
  EXPECT_EQ(translate_all({at("b.cu")}, {}).size(), 2u);
}

TEST(Translate, InlinePtxBecomesACall) {
  const std::string result = translated(
      "asm volatile(\"ex2.approx.f32 \"\n  \"%0, %1;\" : \"=f\"(y[i]) : \"f\"(a ? b : c) : \"memory\");\n"
      "asm(\"add.f32 %0, %0, %1;\" : \"+f\"(x) : \"f\"(y)); asm volatile(\"cp.async.commit_group;\" ::);");
  EXPECT_TRUE(holds(result,
                    "::simt::ptx::run<::simt::ptx::Text(\"ex2.approx.f32 \" \"%0, %1;\")>(::simt::simt_here(), "
                    "::simt::ptx::out(y[i]), ::simt::ptx::in(a ? b : c))"))
      << result;
  EXPECT_TRUE(holds(result, "(::simt::simt_here(), ::simt::ptx::inout(x), ::simt::ptx::in(y))")) << result;
  EXPECT_TRUE(holds(result, "Text(\"cp.async.commit_group;\")>(::simt::simt_here());")) << result;
}

TEST(Translate, UntranslatableCodeIsNamedWithItsLine) {
  const auto told = [](const std::string& text) -> std::string {
    try {
      translated(text);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_TRUE(
      holds(told("\n\nasm(\"mov.u32 %[a], 1;\" : [a] \"=r\"(a));"), "a.cu:3: operands of asm with names"));
  EXPECT_TRUE(
      holds(told("\nvoid f() { extern __shared__ float a[], b[]; }"), "a.cu:2: one dynamic shared array"));
  EXPECT_TRUE(holds(told("void f() { kernel<<<1, 2>>>; }"), "a.cu:1: a launch without arguments"));
}

}  // namespace
}  // namespace attnfuzz
