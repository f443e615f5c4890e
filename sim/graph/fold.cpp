#include "sim/graph/fold.hpp"
