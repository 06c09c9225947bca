/* cresset.h: all of the C API.
 *
 *     printf("Cresset %s knows %zu operators\n", cr_version(), cr_op_count());
 *
 * | header | what |
 * |---|---|
 * | status.h | how every fallible function reports |
 * | version.h, process.h, memory.h, text.h | the release, threads and seeds, the heap, texts |
 * | tensor.h, arg.h, arrays.h | tensors, arguments and results, files of arrays |
 * | program.h, signature.h, inputs.h, check.h | exported programs: load, describe, feed, run, save, check |
 * | compile.h | native code: compile, load, run, compare |
 * | graph.h, ops.h, library.h | graphs and passes, operators by name, operators of your own |
 * | abi.h | how compiled models are called without Cresset |
 *
 * docs/c-api.md is the guide. Stable: all of it within one CR_INTERFACE (version.h), unless a header says otherwise. */
#ifndef CRESSET_CRESSET_H
#define CRESSET_CRESSET_H

#include "cresset/abi.h"
#include "cresset/arrays.h"
#include "cresset/check.h"
#include "cresset/compile.h"
#include "cresset/inputs.h"
#include "cresset/library.h"
#include "cresset/memory.h"
#include "cresset/ops.h"
#include "cresset/page.h"
#include "cresset/process.h"
#include "cresset/program.h"
#include "cresset/version.h"

#endif
