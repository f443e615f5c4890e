#include "sim/report/run_view.hpp"
