#include "sim/base/json_reader.hpp"
