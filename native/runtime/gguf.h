// GGUF files: read strictly, mapped, and their tensors used where they lie.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ggml.h"
#include "result.h"

namespace executorch_ggml {

enum class GgufType : uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64 };

// An entry of the metadata: one element, or an array of them. They lie as the file packs them: not aligned, and each
// string after its length in 8 bytes.
struct GgufEntry {
  std::string key;
  GgufType type;  // of an element
  bool is_array;
  uint64_t count;
  const uint8_t* data;
};

struct GgufTensor {
  std::string name;
  ggml_type type;
  int rank;
  int64_t ne[GGML_MAX_DIMS];
  const uint8_t* data;
  size_t size;  // bytes
};

// What a file holds. Everything that the file says is checked against its length before it is believed.
class GgufContents {
 public:
  // `data` must stay where it is as long as the contents are used.
  static Status read(const uint8_t* data, size_t size, GgufContents* contents);

  const std::vector<GgufEntry>& entries() const { return entries_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find(const std::string& name) const;

  // 16 hexadecimal digits that tell files apart: a digest of the metadata, the table of tensors, the file's length and
  // the first bytes of each tensor. Two files that share it have the same tensors, types and shapes.
  const std::string& id() const { return id_; }

 private:
  std::vector<GgufEntry> entries_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string, size_t> index_;
  std::string id_;
};

// A file that stays mapped as long as it is referred to. Its messages start with its path.
class GgufFile {
 public:
  static Status open(const std::string& path, std::shared_ptr<const GgufFile>* file);
  ~GgufFile();
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;

  const std::string& path() const { return path_; }
  const GgufContents& contents() const { return contents_; }

  // Gives the memory of these bytes of it back; whoever reads them again has them read from the file again.
  void unload(const void* data, size_t size) const;

 private:
  GgufFile() = default;
  Status map();

  std::string path_;
  void* mapped_ = nullptr;
  size_t size_ = 0;
  GgufContents contents_;
};

// Open files, where constants whose key is "gguf:<id of the file>/<name of the tensor>" are found.
class GgufFiles {
 public:
  static bool is_key(const std::string& key);

  // The id of the file in such a key.
  static std::string id_of(const std::string& key);

  void add(std::shared_ptr<const GgufFile> file) { files_.push_back(std::move(file)); }
  void remove(const GgufFile* file);

  // The bytes for a constant, which must be of the tensor's type, row length and number of elements; and the file,
  // which must be referred to as long as they are used.
  Status find(const std::string& key, const ggml_tensor* expected, const void** data, size_t* size,
              std::shared_ptr<const GgufFile>* file) const;

 private:
  std::vector<std::shared_ptr<const GgufFile>> files_;
};

}  // namespace executorch_ggml
