// Tests the one reader and the one writer of files, on regular files, links, devices and FIFOs.
#include "base/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  Files() {
    char name[] = "/tmp/attnfuzz-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~Files() override { fs::remove_all(folder_); }
  std::string at(const std::string& name) const { return folder_ + "/" + name; }
  static std::string error_of(const std::string& path, const ReadLimits& limits = {}) {
    const auto text = read_file(path, limits);
    const auto* error = std::get_if<DecodeError>(&text);
    return error ? error->message : "";
  }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

  std::string folder_;
};

TEST_F(Files, AreWholeOrNotThere) {
  write_file(at("a"), "one");
  write_file(at("a"), "two");
  EXPECT_EQ(file_text(at("a")), "two");
  // No temporary file is left in the folder.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  struct stat status;
  ASSERT_EQ(::stat(at("a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0644u);
}

TEST_F(Files, AnErrorOfWritingNamesTheFile) {
  try {
    write_file("/nonexistent/folder/a", "x");
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_TRUE(has(error.what(), "/nonexistent/folder/a"));
  }
  EXPECT_THROW(write_file(folder_, "x"), std::system_error);
}

TEST_F(Files, ALinkStaysAndItsTargetIsWritten) {
  fs::create_directory(at("b"));
  write_file(at("b/real"), "old");
  fs::create_symlink("b/real", at("link"));
  fs::create_symlink("link", at("further"));
  fs::create_symlink("b/new", at("dangling"));
  write_file(at("further"), "new");
  write_file(at("dangling"), "made");
  EXPECT_TRUE(fs::is_symlink(at("link")));
  EXPECT_TRUE(fs::is_symlink(at("further")));
  EXPECT_TRUE(fs::is_symlink(at("dangling")));
  EXPECT_EQ(file_text(at("b/real")), "new");
  EXPECT_EQ(file_text(at("b/new")), "made");
  fs::create_symlink("circle", at("circle"));
  EXPECT_THROW(write_file(at("circle"), "x"), std::exception);
}

TEST_F(Files, KeepTheirMode) {
  const std::string file = folder_ + "/kept";
  const auto mode = [&] { return static_cast<int>(fs::status(file).permissions()); };
  write_file(file, "new");
  EXPECT_EQ(mode(), 0644);
  for (const int kept : {0640, 0600, 0755}) {
    fs::permissions(file, static_cast<fs::perms>(kept));
    write_file(file, "again");
    EXPECT_EQ(mode(), kept);
  }
}

TEST_F(Files, ADeviceIsWrittenToAndStays) {
  // Through links: a wrong write_file() replaces the link, not the device.
  fs::create_symlink("/dev/null", at("null"));
  fs::create_symlink("/dev/full", at("full"));
  write_file(at("null"), "x");
  EXPECT_TRUE(fs::is_symlink(at("null")));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_THROW(write_file(at("full"), "x"), std::system_error);
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(Files, AFifoIsWrittenTo) {
  ASSERT_EQ(::mkfifo(at("fifo").c_str(), 0600), 0);
  EXPECT_THROW(write_file(at("fifo"), "x"), std::runtime_error);  // nobody reads it
  const int reader = ::open(at("fifo").c_str(), O_RDONLY | O_NONBLOCK);
  write_file(at("fifo"), "heard");
  char text[16] = {};
  EXPECT_EQ(::read(reader, text, sizeof text), 5);
  EXPECT_STREQ(text, "heard");
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(at("fifo")));
}

TEST_F(Files, AFileThatTheShellOpenedIsWrittenInPlace) {
  // As in `attnfuzz export --out /dev/stdout >file`.
  const int fd = ::open(at("open").c_str(), O_WRONLY | O_CREAT, 0644);
  write_file("/proc/self/fd/" + std::to_string(fd), "in place");
  struct stat status;
  ASSERT_EQ(::fstat(fd, &status), 0);
  EXPECT_EQ(status.st_nlink, 1u);
  EXPECT_EQ(status.st_size, 8);
  ::close(fd);
}

TEST_F(Files, AreRefusedWithAReason) {
  EXPECT_TRUE(has(error_of(at("none")), "none"));
  EXPECT_NE(error_of(folder_), "");
  std::ofstream(at("large")).seekp(16 << 20) << "x";
  EXPECT_TRUE(has(error_of(at("large")), "larger than 16 MiB"));
  EXPECT_EQ(error_of(at("large"), kInFolder), "");
  EXPECT_TRUE(has(error_of("/dev/zero"), "larger than 16 MiB"));
  EXPECT_TRUE(has(error_of("/dev/zero", kInFolder), "no regular file"));
}

TEST_F(Files, ReadingAFifoWithoutAWriterEnds) {
  ASSERT_EQ(::mkfifo(at("fifo").c_str(), 0600), 0);
  EXPECT_TRUE(has(error_of(at("fifo"), {.seconds = 0.05}), "in time"));
  EXPECT_TRUE(has(error_of(at("fifo"), kInFolder), "no regular file"));
  std::string error;
  EXPECT_EQ(open_regular(at("fifo"), &error), -1);
  EXPECT_TRUE(has(error, "no regular file"));
  EXPECT_EQ(open_regular(at("none"), &error), -1);
  EXPECT_EQ(error, "");
}

TEST_F(Files, ReadingARegularFileThatBlocksEnds) {
  // Root reads the kernel's log, and the read of more blocks. Others may not read it.
  EXPECT_NE(error_of("/proc/kmsg", {.seconds = 0.05}), "");
}

TEST_F(Files, AFifoIsReadToItsEnd) {
  ASSERT_EQ(::mkfifo(at("fifo").c_str(), 0600), 0);
  std::thread writer([this] {
    std::ofstream out(at("fifo"));
    out << "one" << std::flush;
    out << "two";
  });
  EXPECT_EQ(file_text(at("fifo"), {.seconds = 60}), "onetwo");
  writer.join();
}

}  // namespace
}  // namespace attnfuzz
