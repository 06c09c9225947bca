/* names.h: the function names of SymPy and PyTorch, between printer and parser. */
#ifndef CR_SYM_NAMES_H
#define CR_SYM_NAMES_H

#include "sym/sym.h"

const char *cr__name_of(cr_sym e);           /* the function name srepr gives the node's operator */
const char *cr__type_name(cr_sym_type type); /* "int", "float", "bool" */
bool cr__reserved_name(const char *name);    /* a word that infix text reads as something other than a symbol */
static inline bool cr__name_byte(char c) {   /* of a Python identifier; UTF-8 passes */
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}

typedef enum cr__shape { CR__FIXED, CR__SUM, CR__PRODUCT, CR__LIST, CR__JUNCTION, CR__COMPARE, CR__SPECIAL } cr__shape;
typedef struct cr__function {
    const char *name;
    cr__shape shape;
    int kind; /* cr_sym_kind; cr_cmp for CR__COMPARE; one of the names below for CR__SPECIAL */
    int arguments; /* -1: any number from one */
} cr__function;
const cr__function *cr__function_find(const char *name, size_t length);

enum { CR__NEGATIVE_POW, CR__CLEAN_DIV, CR__MODULAR_INDEXING, CR__LSHIFT, CR__RSHIFT, CR__IDENTITY, CR__TRUNC_TO_FLOAT,
       CR__FLOOR_OF, CR__CEILING_OF, CR__FLOAT_DIV, CR__INT_DIV, CR__FLOAT_POW, CR__XOR };

#endif
