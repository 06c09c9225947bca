/* stamps.h: a guard program that held, as few words of memory that have not changed since.
 *
 * Most of what guards read changes never: modules, their dicts, classes, functions. Once a program has held, everything
 * that its rows read hangs together by pointers; a *word* is a place in memory with what was there. Where CPython
 * numbers the states of an object (the version of a dict or of a class, never used twice), one word stands for all that
 * was read of it. Words come in the order of the rows: what an address lies in is alive because the words before it
 * say that somebody holds it still.
 *
 *     proven:     the very object that it was, because the state of who holds it is numbered
 *     at address: whoever holds it points to the same address. It may be another object made there later, so nothing
 *                 of it counts but what further words say: its class first, then numbers of states, or pointers to
 *                 objects that the rows hold.
 *
 * Tensors of a library that says when one of them changes are watched: words say which object it is, and the tensor is
 * looked at only when the library has counted a change. What no word can say stays a row, checked in every call. A word
 * that changed is no miss: the rows are checked, and the words are made again, with less trust in the object whose word
 * it was: after two changes its parts are compared singly, after four its rows are checked.
 *
 * Whether the versions of dicts can be trusted is found out by changing some (cresset/_probe.py), once. */
#ifndef CR_STAMPS_H
#define CR_STAMPS_H

#include "capture/guard.h"

typedef struct cr_stamps cr_stamps;

/* What a test asks of stamps: LIE: every word says that it changed; COMPARE: they are made at once, and what they let
 * pass is checked by the rows, too. */
typedef enum cr_stamp_mode { CR_STAMPS_USED, CR_STAMPS_LIE, CR_STAMPS_COMPARE, CR_STAMPS_OFF } cr_stamp_mode;
extern cr_stamp_mode cr_capture_stamp_mode; /* process: for tests */
extern uint64_t cr_capture_stale;           /* how often a comparison found words that were wrong */

/* As cr_guards_check, by words where there are some; of the slots those are filled that g->needed asks for, and those
 * that rows read. */
int32_t cr_guards_hold(cr_guards *g, PyObject *const *args, PyObject *function, PyObject **slots);
void cr_stamps_free(cr_stamps *s); /* NULL is legal */
/* Finds out once whether versions of dicts can be trusted. Runs Python code. -1: exception. */
int cr_stamps_probe(void);
/* (words, rows that are left, whether versions of dicts alone, and of those that share keys, are used); (): there are
 * none. New reference; for tests. */
PyObject *cr_stamps_shown(const cr_guards *g);

#endif
