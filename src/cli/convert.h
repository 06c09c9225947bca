/* convert.h: writing PT2 archives out of those that were read (convert_pt2.c); convert.c is the command. */
#ifndef CR_CLI_CONVERT_H
#define CR_CLI_CONVERT_H

#include "archive/safetensors.h"
#include "cli/model.h"

/* Is it the layout of PyTorch 2.1 to 2.6? */
bool pt2_is_old(const cr_zip *zip);
/* The archive of `p` once more: members as they are, weights from p's tensors (which the caller may have written to).
 * The old layout becomes the new one. CR_EUNSUPPORTED: weights that are kept as pickles. */
CR_NODISCARD cr_status pt2_write_again(const cr_program *p, const char *path);

#endif
