/* version.c: which release the library is. */
#include "cresset/version.h"

const char *cr_version(void) { return CR_VERSION; }

int cr_version_number(void) { return CR_VERSION_NUMBER; }
