#include "chart/chart.h"
