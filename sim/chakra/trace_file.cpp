// Converts between protobuf messages and RankTrace. No other file includes protobuf.
#include "sim/chakra/trace_file.hpp"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <limits>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/chakra/execution_trace.pb.h"

namespace trainyard::chakra {

namespace {

namespace wire = ChakraProtoMsg;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

[[noreturn]] void fail(const std::string& file, std::string problem, std::string hint) {
  throw InputError(Problem{file, "", std::move(problem), std::move(hint)});
}

template <class List>
std::vector<std::int64_t> integers(const List& list) {
  return {list.values().begin(), list.values().end()};
}

template <class List>
std::vector<std::string> texts(const List& list) {
  return {list.values().begin(), list.values().end()};
}

// Keeps a number beyond int64 as uint64.
template <class Integer>
Value whole(Integer value) {
  if (!std::in_range<std::int64_t>(value)) return static_cast<std::uint64_t>(value);
  return static_cast<std::int64_t>(value);
}

// Returns nothing for a list of fractions; no attribute that an import reads has this type.
std::optional<Value> value_of(const wire::AttributeProto& attribute) {
  switch (attribute.value_case()) {
    case wire::AttributeProto::kDoubleVal:
      return attribute.double_val();
    case wire::AttributeProto::kFloatVal:
      return double{attribute.float_val()};
    case wire::AttributeProto::kInt32Val:
      return whole(attribute.int32_val());
    case wire::AttributeProto::kInt64Val:
      return whole(attribute.int64_val());
    case wire::AttributeProto::kUint32Val:
      return whole(attribute.uint32_val());
    case wire::AttributeProto::kUint64Val:
      return whole(attribute.uint64_val());
    case wire::AttributeProto::kSint32Val:
      return whole(attribute.sint32_val());
    case wire::AttributeProto::kSint64Val:
      return whole(attribute.sint64_val());
    case wire::AttributeProto::kFixed32Val:
      return whole(attribute.fixed32_val());
    case wire::AttributeProto::kFixed64Val:
      return whole(attribute.fixed64_val());
    case wire::AttributeProto::kSfixed32Val:
      return whole(attribute.sfixed32_val());
    case wire::AttributeProto::kSfixed64Val:
      return whole(attribute.sfixed64_val());
    case wire::AttributeProto::kBoolVal:
      return attribute.bool_val();
    case wire::AttributeProto::kStringVal:
      return attribute.string_val();
    case wire::AttributeProto::kBytesVal:
      return attribute.bytes_val();
    case wire::AttributeProto::kInt32List:
      return integers(attribute.int32_list());
    case wire::AttributeProto::kInt64List:
      return integers(attribute.int64_list());
    case wire::AttributeProto::kUint32List:
      return integers(attribute.uint32_list());
    case wire::AttributeProto::kUint64List:
      return integers(attribute.uint64_list());
    case wire::AttributeProto::kBoolList:
      return integers(attribute.bool_list());
    case wire::AttributeProto::kStringList:
      return texts(attribute.string_list());
    default:
      return std::nullopt;
  }
}

template <class Message>
Attributes attributes_of(const Message& message) {
  Attributes attributes;
  for (const wire::AttributeProto& attribute : message.attr()) {
    if (auto value = value_of(attribute))
      attributes.insert_or_assign(attribute.name(), std::move(*value));
  }
  return attributes;
}

struct WriteValue {
  wire::AttributeProto& into;
  void operator()(std::int64_t value) const { into.set_int64_val(value); }
  void operator()(std::int32_t value) const { into.set_int32_val(value); }
  void operator()(std::uint64_t value) const { into.set_uint64_val(value); }
  void operator()(double value) const { into.set_double_val(value); }
  void operator()(bool value) const { into.set_bool_val(value); }
  void operator()(const std::string& value) const { into.set_string_val(value); }
  void operator()(const std::vector<std::int64_t>& values) const {
    for (const std::int64_t value : values) into.mutable_int64_list()->add_values(value);
  }
  void operator()(const std::vector<std::string>& values) const {
    for (const std::string& value : values) into.mutable_string_list()->add_values(value);
  }
};

template <class Message>
void write_attributes(const Attributes& attributes, Message& message) {
  for (const auto& [name, value] : attributes) {
    wire::AttributeProto& attribute = *message.add_attr();
    attribute.set_name(name);
    std::visit(WriteValue{attribute}, value);
  }
}

Node node_of(const wire::Node& node) {
  return {.id = node.id(),
          .name = node.name(),
          .type = static_cast<NodeType>(node.type()),
          .control = {node.ctrl_deps().begin(), node.ctrl_deps().end()},
          .data = {node.data_deps().begin(), node.data_deps().end()},
          .start_us = node.start_time_micros(),
          .duration_us = node.duration_micros(),
          .input_values = node.inputs().values(),
          .attributes = attributes_of(node)};
}

wire::Node message_of(const Node& node) {
  wire::Node message;
  message.set_id(node.id);
  message.set_name(node.name);
  message.set_type(static_cast<std::int32_t>(node.type));
  for (const std::uint64_t id : node.control) message.add_ctrl_deps(id);
  for (const std::uint64_t id : node.data) message.add_data_deps(id);
  message.set_start_time_micros(node.start_us);
  message.set_duration_micros(node.duration_us);
  if (!node.input_values.empty()) message.mutable_inputs()->set_values(node.input_values);
  write_attributes(node.attributes, message);
  return message;
}

template <class Message>
void read_message(CodedInputStream& in, const std::string& file, Message& message) {
  std::uint32_t length = 0;
  const int at = in.CurrentPosition();
  // A message has no end marker: its length, a varint, comes before it.
  const bool has_length = in.ReadVarint32(&length);
  const auto limit = in.PushLimit(static_cast<int>(length));
  if (!has_length || !message.ParseFromCodedStream(&in) || in.BytesUntilLimit() != 0) {
    fail(file, fmt::format("holds no message of a Chakra trace at byte {}", at),
         "give files of mlcommons/chakra, schema 0.0.4 or later, uncompressed or named .gz");
  }
  in.PopLimit(limit);
}

template <class Message>
void append_message(const Message& message, CodedOutputStream& out) {
  out.WriteVarint32(static_cast<std::uint32_t>(message.ByteSizeLong()));
  TY_CHECK(message.SerializeToCodedStream(&out));
}

}  // namespace

// The first message is the metadata of the trace, and all others are nodes. protobuf's streams
// count bytes in an int, hence the limit of 2 GiB.
RankTrace from_bytes(std::string_view bytes, const std::string& file) {
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    fail(file, "is larger than 2 GiB", "split the trace by iteration");
  google::protobuf::io::ArrayInputStream array(bytes.data(), static_cast<int>(bytes.size()));
  CodedInputStream in(&array);
  wire::GlobalMetadata metadata;
  if (bytes.empty()) fail(file, "is empty", "give a Chakra trace");
  read_message(in, file, metadata);
  RankTrace trace{.version = metadata.version(), .attributes = attributes_of(metadata)};
  wire::Node node;
  while (in.CurrentPosition() < static_cast<int>(bytes.size())) {
    read_message(in, file, node);
    trace.nodes.push_back(node_of(node));
  }
  return trace;
}

std::string to_bytes(const RankTrace& trace) {
  std::string bytes;
  {
    // `out` writes the rest of its buffer to `bytes` when this block ends.
    google::protobuf::io::StringOutputStream stream(&bytes);
    CodedOutputStream out(&stream);
    wire::GlobalMetadata metadata;
    metadata.set_version(trace.version);
    write_attributes(trace.attributes, metadata);
    append_message(metadata, out);
    for (const Node& node : trace.nodes) append_message(message_of(node), out);
  }
  return bytes;
}

void refuse_unless_built_in(const std::string& /*file*/) {}

}  // namespace trainyard::chakra
