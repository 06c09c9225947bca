/* parse.h: what the two files of the graph parser share. parse_parts.c reads words, sizes, types and arguments; parse.c
 * reads statements and graphs. */
#ifndef CR_PARSE_H
#define CR_PARSE_H

#include "graph/internal.h"

enum { CR__MAX_ITEMS = 4096 }; /* of a list */

/* A name that stands for all results of a node. */
typedef struct parser_tuple { const char *name; uint32_t node; } parser_tuple;
/* What a statement names before its '='. single: one name, no brackets. */
typedef struct parser_results { cr_value *at; size_t n, cap, typed; bool single; } parser_results;

typedef struct graph_parser {
    const char *text, *at;
    cr_env *env;
    cr_graph *g;
    cr_arena scratch;
    CR_VEC(parser_tuple) tuples;
    int depth, nesting; /* of lists; of graphs */
} graph_parser;

/* CR_EFORMAT with the position of p->at */
cr_status cr__parse_fail(graph_parser *p, const char *format, ...) CR_PRINTF(2, 3);
/* The last error with the position of `at`; out of memory stays what it is, and CR_OK too. */
cr_status cr__parse_fail_at(graph_parser *p, const char *at, cr_status status);

void cr__parse_skip(graph_parser *p); /* spaces and comments */
bool cr__parse_accept(graph_parser *p, const char *token); /* a word does not match the beginning of a longer one */
cr_status cr__parse_expect(graph_parser *p, const char *token);
bool cr__parse_name_char(char c);
cr_status cr__parse_name(graph_parser *p, char **out);
cr_status cr__parse_string(graph_parser *p, char **out, size_t *length); /* the inverse of cr_str_add_quoted */

cr_status cr__parse_dim(graph_parser *p, cr_dim *out);
cr_status cr__parse_expr(graph_parser *p, const char *stop, cr_sym *out); /* up to one of the characters of `stop` */
cr_status cr__parse_meta(graph_parser *p, int dtype, cr_meta *m); /* [sizes](strides)+offset@device */
/* A value's type; `r`: the results named before it in the same statement, or NULL. */
cr_status cr__parse_type(graph_parser *p, const parser_results *r, cr_value *v);

cr_status cr__parse_number(graph_parser *p, bool any, cr_arg *out); /* any: also integers that a size could not be */
cr_status cr__parse_complex(graph_parser *p, cr_arg *out); /* after its '(' */
cr_status cr__parse_arg(graph_parser *p, cr_arg *out);
cr_status cr__parse_args(graph_parser *p, const char *close, cr_arg **out, uint32_t *n);

#endif
