// The table of formats: each row's example is imported and runs, is found by its own row alone, and
// is described on the page of formats.
#include <algorithm>
#include <filesystem>
#include <sstream>

#include "scenarios/import/training/config_document.hpp"
#include "tests/scenarios/import/training_sample.hpp"

namespace trainyard {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> example_files(const TrainingFormat& format) {
  std::istringstream words{std::string(format.example)};
  std::vector<std::string> files;
  for (std::string word; words >> word;) files.push_back(word);
  return files;
}

ImportSample sample_of(const std::string& file) {
  ImportSample sample{
      .file = file, .text = read_file(TRAINYARD_SOURCE_DIRECTORY "/" + file), .document = nullptr};
  try {
    sample.document = read_config(sample.text, file).values;
  } catch (const InputError&) {
    EXPECT_TRUE(file.ends_with(".sh") || file.ends_with(".log")) << file;
  }
  return sample;
}

std::vector<std::string> formats_of(const std::string& file) {
  const ImportSample sample = sample_of(file);
  std::vector<std::string> names;
  for (const TrainingFormat& format : training_formats())
    if (format.looks_like(sample)) names.emplace_back(format.name);
  return names;
}

// Are the rows sorted, complete and distinct?
TEST(TrainingFormats, RowsAreSortedAndComplete) {
  const auto formats = training_formats();
  EXPECT_EQ(formats.size(), 8U);
  EXPECT_TRUE(std::ranges::is_sorted(formats, std::ranges::less_equal{}, &TrainingFormat::name) ||
              std::ranges::is_sorted(formats, {}, &TrainingFormat::name));
  for (const TrainingFormat& format : formats) {
    EXPECT_FALSE(format.what.empty()) << format.name;
    EXPECT_FALSE(format.fields.empty()) << format.name;
    EXPECT_FALSE(example_files(format).empty()) << format.name;
  }
}

// Does each file look like its own format, and like no other?
TEST(TrainingFormats, EachFileLooksLikeItsOwnFormatAlone) {
  for (const TrainingFormat& format : training_formats())
    EXPECT_THAT(formats_of(example_files(format).front()), ElementsAre(std::string(format.name)));
  const std::string folder = "tests/scenarios/import/";
  EXPECT_THAT(formats_of(folder + "nemo/nemo1_gpt.yaml"), ElementsAre("nemo"));
  EXPECT_THAT(formats_of(folder + "nemo/nemo2_mixtral.yaml"), ElementsAre("nemo"));
  EXPECT_THAT(formats_of(folder + "maxtext/experts.yml"), ElementsAre("maxtext"));
  EXPECT_THAT(formats_of(folder + "accelerate/megatron.yaml"), ElementsAre("accelerate"));
  EXPECT_THAT(formats_of(folder + "accelerate/deepspeed.yaml"), ElementsAre("accelerate"));
  EXPECT_THAT(formats_of(folder + "hf/llama3_8b.json"), ElementsAre());
  EXPECT_THAT(formats_of("mkdocs.yml"), ElementsAre());
  EXPECT_THAT(formats_of("scenarios/first/two_gpus.json"), ElementsAre());
}

// The files of a format: those in the folder of its example, which is the format's own unless it is
// the folder of all importers.
std::vector<std::string> tried_files(const TrainingFormat& format) {
  namespace fs = std::filesystem;
  const fs::path example(example_files(format).front());
  const std::string folder = example.parent_path().filename().string();
  if (folder == "import") return {example.filename().string()};
  std::vector<std::string> files;
  for (const auto& entry :
       fs::directory_iterator(fs::path(TRAINYARD_SOURCE_DIRECTORY) / example.parent_path()))
    files.push_back(folder + "/" + entry.path().filename().string());
  std::ranges::sort(files);
  return files;
}

// Does the page of formats have the row of each format, as the table and the folders say it?
TEST(TrainingFormats, ThePageOfFormatsHasEveryRow) {
  const std::string page = read_file(TRAINYARD_SOURCE_DIRECTORY "/docs/reference/importers.md");
  for (const TrainingFormat& format : training_formats()) {
    std::string files;
    for (const std::string& file : tried_files(format))
      files += fmt::format("{}`{}`", files.empty() ? "" : ", ", file);
    EXPECT_THAT(page, HasSubstr(fmt::format("| `{}` | {} | {} | {} |", format.name, format.what,
                                            files, format.fields)));
  }
}

}  // namespace
}  // namespace trainyard
