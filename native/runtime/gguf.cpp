#include "gguf.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <limits>
#include <unordered_set>

#include "platform/platform.h"
#include "status.h"

namespace executorch_ggml {
namespace {

constexpr char kMagic[4] = {'G', 'G', 'U', 'F'};
constexpr char kPrefix[] = "gguf:";
constexpr size_t kIdDigits = 16;
constexpr size_t kSample = 64;  // bytes of each tensor that the id depends on
// The least bytes that an entry and a tensor of the tables take: what is said to be more cannot be there.
constexpr size_t kLeastEntry = 8 + 4 + 1;
constexpr size_t kLeastTensor = 8 + 4 + 4 + 8;

size_t size_of(GgufType type) {
  static constexpr uint8_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kSizes[static_cast<size_t>(type)];
}

bool is_power_of_two(uint64_t n) { return n != 0 && (n & (n - 1)) == 0; }

// Reads what is packed one after the other, up to the end and no further.
class Cursor {
 public:
  Cursor(const uint8_t* begin, size_t size) : begin_(begin), at_(begin), end_(begin + size) {}

  const uint8_t* at() const { return at_; }
  size_t offset() const { return static_cast<size_t>(at_ - begin_); }
  size_t left() const { return static_cast<size_t>(end_ - at_); }

  bool skip(uint64_t bytes) {
    if (bytes > left()) return false;
    at_ += bytes;
    return true;
  }

  template <class T>
  bool read(T* value) {
    const uint8_t* from = at_;
    if (!skip(sizeof(T))) return false;
    std::memcpy(value, from, sizeof(T));
    return true;
  }

  bool skip_text() {
    uint64_t length = 0;
    return read(&length) && skip(length);
  }

  bool read_text(std::string* text) {
    const uint8_t* from = at_ + sizeof(uint64_t);
    if (!skip_text()) return false;
    text->assign(reinterpret_cast<const char*>(from), static_cast<size_t>(at_ - from));
    return true;
  }

 private:
  const uint8_t* begin_;
  const uint8_t* at_;
  const uint8_t* end_;
};

class Digest {
 public:
  void add(const uint8_t* data, size_t size) {
    for (; size >= sizeof(uint64_t); data += sizeof(uint64_t), size -= sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, data, sizeof(word));
      mix(word);
    }
    uint64_t rest = size;
    for (; size > 0; --size) rest = rest << 8 | data[size - 1];
    mix(rest);
  }
  void mix(uint64_t word) {
    state_ = (state_ ^ word) * 0x9E3779B97F4A7C15u;
    state_ ^= state_ >> 32;
  }
  std::string digits() const { return format("%016" PRIx64, state_); }

 private:
  uint64_t state_ = 0x6A09E667F3BCC909u;
};

Status ends_within(const std::string& what) {
  return Status::error("the file ends within " + what + "; copy or download it again");
}

Status check_name(const std::string& what, const std::string& name) {
  if (!name.empty() && readable(name) == name) return {};
  return Status::error(what + " has a name that is empty or not text: \"" + name + "\"");
}

struct Header {
  uint32_t version;
  uint64_t tensors;
  uint64_t entries;
};

Status read_header(Cursor* cursor, Header* header) {
  char magic[4] = {};
  if (!cursor->read(&magic) || std::memcmp(magic, kMagic, sizeof(kMagic)) != 0) {
    return Status::error("not a GGUF file: it does not start with GGUF");
  }
  if (!cursor->read(&header->version)) return ends_within("its header");
  if ((header->version & 0xFFFF) == 0) {
    return Status::error("a GGUF file of big-endian numbers; convert it to little-endian");
  }
  if (header->version != 2 && header->version != 3) {
    return Status::error(format("GGUF version %u, expected 2 or 3", header->version));
  }
  if (!cursor->read(&header->tensors) || !cursor->read(&header->entries)) return ends_within("its header");
  if (header->entries > cursor->left() / kLeastEntry) {
    return Status::error(format("%" PRIu64 " metadata entries are said to be in a file of %zu bytes", header->entries,
                                cursor->offset() + cursor->left()));
  }
  if (header->tensors > cursor->left() / kLeastTensor) {
    return Status::error(format("%" PRIu64 " tensors are said to be in a file of %zu bytes", header->tensors,
                                cursor->offset() + cursor->left()));
  }
  return {};
}

Status read_type(Cursor* cursor, const std::string& what, GgufType* type) {
  uint32_t number = 0;
  if (!cursor->read(&number)) return ends_within(what);
  if (number > static_cast<uint32_t>(GgufType::F64)) {
    return Status::error(format("%s is of type #%u, unknown to GGUF", what.c_str(), number));
  }
  *type = static_cast<GgufType>(number);
  return {};
}

Status skip_elements(Cursor* cursor, const std::string& what, const GgufEntry& entry) {
  const size_t least = entry.type == GgufType::String ? sizeof(uint64_t) : size_of(entry.type);
  if (entry.count > cursor->left() / least) return ends_within(what);
  if (entry.type != GgufType::String) {
    cursor->skip(entry.count * least);
    return {};
  }
  for (uint64_t i = 0; i < entry.count; ++i) {
    if (!cursor->skip_text()) return ends_within(what);
  }
  return {};
}

Status read_entry(Cursor* cursor, uint64_t index, GgufEntry* entry) {
  std::string what = format("metadata entry %" PRIu64, index);
  if (!cursor->read_text(&entry->key)) return ends_within(what);
  EXECUTORCH_GGML_TRY(check_name(what, entry->key));
  what = "metadata " + entry->key;
  EXECUTORCH_GGML_TRY(read_type(cursor, what, &entry->type));
  entry->is_array = entry->type == GgufType::Array;
  entry->count = 1;
  if (entry->is_array) {
    EXECUTORCH_GGML_TRY(read_type(cursor, what, &entry->type));
    if (entry->type == GgufType::Array) return Status::error(what + " is an array of arrays, which nothing here reads");
    if (!cursor->read(&entry->count)) return ends_within(what);
  }
  entry->data = cursor->at();
  return skip_elements(cursor, what, *entry);
}

Status read_entries(Cursor* cursor, uint64_t count, std::vector<GgufEntry>* entries) {
  std::unordered_set<std::string> keys;
  for (uint64_t i = 0; i < count; ++i) {
    GgufEntry entry;
    EXECUTORCH_GGML_TRY(read_entry(cursor, i, &entry));
    if (!keys.insert(entry.key).second) return Status::error("metadata " + entry.key + " is there twice");
    entries->push_back(std::move(entry));
  }
  return {};
}

Status read_alignment(const std::vector<GgufEntry>& entries, uint32_t* alignment) {
  *alignment = 32;
  for (const GgufEntry& entry : entries) {
    if (entry.key != "general.alignment") continue;
    if (entry.is_array || entry.type != GgufType::U32) return Status::error("metadata general.alignment is no u32");
    std::memcpy(alignment, entry.data, sizeof(*alignment));
    if (!is_power_of_two(*alignment)) {
      return Status::error(format("metadata general.alignment is %u, expected a power of two", *alignment));
    }
  }
  return {};
}

// The tensor's bytes, from its type and sizes.
Status measure(const std::string& what, GgufTensor* tensor) {
  const int64_t block = ggml_blck_size(tensor->type);
  if (tensor->ne[0] % block != 0) {
    return Status::error(format("%s has rows of %" PRId64 " elements, and %s comes in blocks of %" PRId64, what.c_str(),
                                tensor->ne[0], ggml_type_name(tensor->type), block));
  }
  const auto blocks = static_cast<uint64_t>(tensor->ne[0] / block);
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  uint64_t bytes = ggml_type_size(tensor->type);
  uint64_t elements = 1;
  for (int d = 0; d < GGML_MAX_DIMS; ++d) {
    const auto size = static_cast<uint64_t>(tensor->ne[d]);
    const uint64_t factor = d == 0 ? blocks : size;
    if (size == 0 || elements > kMost / size || bytes > kMost / std::max<uint64_t>(factor, 1)) {
      return Status::error(format("%s: dim %d of %" PRIu64 " elements is empty or too large", what.c_str(), d, size));
    }
    elements *= size;
    bytes *= factor;
  }
  tensor->size = bytes;
  return {};
}

Status read_tensor(Cursor* cursor, uint64_t index, GgufTensor* tensor, uint64_t* offset) {
  std::string what = format("tensor %" PRIu64, index);
  if (!cursor->read_text(&tensor->name)) return ends_within(what);
  EXECUTORCH_GGML_TRY(check_name(what, tensor->name));
  what = "tensor " + tensor->name;
  uint32_t rank = 0;
  if (!cursor->read(&rank)) return ends_within(what);
  if (rank > GGML_MAX_DIMS) return Status::error(format("%s has %u dims, expected at most 4", what.c_str(), rank));
  tensor->rank = static_cast<int>(rank);
  for (int d = 0; d < GGML_MAX_DIMS; ++d) {
    tensor->ne[d] = 1;
    if (d < tensor->rank && !cursor->read(&tensor->ne[d])) return ends_within(what);
    if (tensor->ne[d] < 1) {
      return Status::error(format("%s: dim %d has %" PRId64 " elements", what.c_str(), d, tensor->ne[d]));
    }
  }
  uint32_t type = 0;
  if (!cursor->read(&type) || !cursor->read(offset)) return ends_within(what);
  tensor->type = static_cast<ggml_type>(type);
  if (type >= GGML_TYPE_COUNT || ggml_blck_size(tensor->type) <= 0 || ggml_type_size(tensor->type) == 0) {
    return Status::error(format("%s is of ggml type #%u, unknown to this version of ggml", what.c_str(), type));
  }
  return measure(what, tensor);
}

// Where a tensor's bytes are, once the table's end is known.
Status locate(const uint8_t* data, size_t size, uint64_t begin, uint64_t offset, uint32_t alignment,
              GgufTensor* tensor) {
  if (offset % alignment != 0) {
    return Status::error(format("tensor %s lies at offset %" PRIu64 ", not a multiple of the alignment %u",
                                tensor->name.c_str(), offset, alignment));
  }
  const uint64_t room = begin > size ? 0 : size - begin;
  if (offset > room || tensor->size > room - offset) {
    return Status::error(format("tensor %s: its %zu bytes at offset %" PRIu64 " end after the file, which has %" PRIu64
                                " for tensors; copy or download it again",
                                tensor->name.c_str(), tensor->size, offset, room));
  }
  tensor->data = data + begin + offset;
  return {};
}

// A damaged offset is one into another tensor, whose numbers would be taken for its own.
Status check_apart(const std::vector<GgufTensor>& tensors) {
  std::vector<const GgufTensor*> sorted;
  for (const GgufTensor& tensor : tensors) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->data < b->data; });
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i]->data < sorted[i - 1]->data + sorted[i - 1]->size) {
      return Status::error("tensors " + sorted[i - 1]->name + " and " + sorted[i]->name + " overlap");
    }
  }
  return {};
}

}  // namespace

Status GgufContents::read(const uint8_t* data, size_t size, GgufContents* contents) {
  Cursor cursor(data, size);
  Header header{};
  EXECUTORCH_GGML_TRY(read_header(&cursor, &header));
  EXECUTORCH_GGML_TRY(read_entries(&cursor, header.entries, &contents->entries_));
  uint32_t alignment = 0;
  EXECUTORCH_GGML_TRY(read_alignment(contents->entries_, &alignment));
  std::vector<uint64_t> offsets;
  for (uint64_t i = 0; i < header.tensors; ++i) {
    GgufTensor tensor;
    offsets.emplace_back();
    EXECUTORCH_GGML_TRY(read_tensor(&cursor, i, &tensor, &offsets.back()));
    if (!contents->index_.emplace(tensor.name, i).second) {
      return Status::error("tensor " + tensor.name + " is there twice");
    }
    contents->tensors_.push_back(std::move(tensor));
  }
  const uint64_t begin = (static_cast<uint64_t>(cursor.offset()) + alignment - 1) / alignment * alignment;
  Digest digest;
  digest.add(data, cursor.offset());
  digest.mix(size);
  for (size_t i = 0; i < offsets.size(); ++i) {
    GgufTensor& tensor = contents->tensors_[i];
    EXECUTORCH_GGML_TRY(locate(data, size, begin, offsets[i], alignment, &tensor));
    digest.add(tensor.data, std::min(tensor.size, kSample));
  }
  EXECUTORCH_GGML_TRY(check_apart(contents->tensors_));
  contents->id_ = digest.digits();
  return {};
}

const GgufTensor* GgufContents::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

Status GgufFile::open(const std::string& path, std::shared_ptr<const GgufFile>* file) {
  return without_exceptions([&]() -> Status {
    std::shared_ptr<GgufFile> made(new GgufFile());
    made->path_ = path;
    Status status = made->map();
    if (status.ok()) status = GgufContents::read(static_cast<uint8_t*>(made->mapped_), made->size_, &made->contents_);
    if (!status.ok()) return Status::error(path + ": " + status.message());
    *file = std::move(made);
    return {};
  });
}

Status GgufFile::map() {
  platform::File file;
  EXECUTORCH_GGML_TRY(file.open(path_));
  if (file.size() == 0) return Status::error("the file is empty");
  EXECUTORCH_GGML_TRY(file.map(platform::Mapping::ReadOnly, &mapped_));
  size_ = static_cast<size_t>(file.size());
  return {};
}

GgufFile::~GgufFile() {
  if (mapped_ != nullptr) platform::unmap(mapped_, size_);
}

void GgufFile::unload(const void* data, size_t size) const { platform::discard(data, size); }

bool GgufFiles::is_key(const std::string& key) { return key.compare(0, sizeof(kPrefix) - 1, kPrefix) == 0; }

std::string GgufFiles::id_of(const std::string& key) { return key.substr(sizeof(kPrefix) - 1, kIdDigits); }

void GgufFiles::remove(const GgufFile* file) {
  const auto is_it = [&](const auto& open) { return open.get() == file; };
  files_.erase(std::remove_if(files_.begin(), files_.end(), is_it), files_.end());
}

namespace {

bool fits(const GgufTensor& tensor, const ggml_tensor* expected) {
  int64_t elements = 1;
  for (int64_t size : tensor.ne) elements *= size;
  return tensor.type == expected->type && tensor.ne[0] == expected->ne[0] && elements == ggml_nelements(expected);
}

std::string shape_text(ggml_type type, const int64_t* ne) {
  return format("%s[%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]", ggml_type_name(type), ne[0], ne[1], ne[2],
                ne[3]);
}

}  // namespace

Status GgufFiles::find(const std::string& key, const ggml_tensor* expected, const void** data, size_t* size,
                       std::shared_ptr<const GgufFile>* file) const {
  const size_t start = sizeof(kPrefix) - 1;
  if (key.size() < start + kIdDigits + 1 || key[start + kIdDigits] != '/') {
    return Status::error("constant " + key + ": expected gguf:, 16 digits, / and the name of a tensor");
  }
  const std::string id = key.substr(start, kIdDigits);
  const std::string name = key.substr(start + kIdDigits + 1);
  for (const auto& open : files_) {
    if (open->contents().id() != id) continue;
    const GgufTensor* tensor = open->contents().find(name);
    if (tensor == nullptr) return Status::error(open->path() + ": it has no tensor " + name);
    if (!fits(*tensor, expected)) {
      return Status::error(open->path() + ": tensor " + name + " is " + shape_text(tensor->type, tensor->ne) +
                           ", and the program expects " + shape_text(expected->type, expected->ne));
    }
    *data = tensor->data;
    *size = tensor->size;
    *file = open;
    return {};
  }
  std::string others;
  for (const auto& open : files_)
    others += (others.empty() ? "" : ", ") + open->path() + " is " + open->contents().id();
  return Status::error("constant " + name + " lies in the GGUF file " + id + ", which is not open" +
                       (others.empty() ? "" : ": " + others));
}

}  // namespace executorch_ggml
