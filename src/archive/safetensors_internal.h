/* safetensors_internal.h: what the reader and the writer of the format share. */
#ifndef CR_SAFETENSORS_INTERNAL_H
#define CR_SAFETENSORS_INTERNAL_H

enum { CR__SAFETENSORS_HEADER = 100 * 1000 * 1000 }; /* bytes of the largest header */

const char *cr__safetensors_type(int dtype); /* the format's name of it; NULL: there is none */

#endif
