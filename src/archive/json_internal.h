/* json_internal.h: how the members of a large object are found; shared by the parser and the walkers. */
#ifndef CR_JSON_INTERNAL_H
#define CR_JSON_INTERNAL_H

#include "archive/json.h"

/* An object of more members than this has cr__json_slots(n) 32-bit numbers behind its members: an open-addressed hash
 * index of member number + 1, 0 where a slot is empty. */
enum { CR__JSON_LARGE = 16 };
size_t cr__json_slots(uint32_t n);
/* The slot of `key`, or the empty one where it would go. */
uint32_t *cr__json_slot(const cr_json_member *members, uint32_t n, const char *key);

#endif
