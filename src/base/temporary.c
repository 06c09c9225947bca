/* temporary.c: which unfinished output files this process has, so that a signal that ends it can remove them. Folders
 * may be noted, too: they are removed after the files.
 *
 * A fixed table, because a signal handler may neither allocate nor lock: a slot's state is written last and read first.
 * A path too long for a slot, or one file too many, is simply not noted: it is then removed on every way out but a
 * signal. */
#include "base/base.h"

#include <stdatomic.h>
#include <unistd.h>

enum { SLOTS = 32, FREE = 0, TAKEN, NOTED };
static struct { _Atomic int state; char path[4096]; } slots[SLOTS];

int cr_temporary_add(const char *path) {
    if (strlen(path) >= sizeof slots[0].path) return -1;
    for (int i = 0; i < SLOTS; i++) {
        int free_state = FREE;
        if (!atomic_compare_exchange_strong(&slots[i].state, &free_state, TAKEN)) continue;
        strcpy(slots[i].path, path);
        atomic_store(&slots[i].state, NOTED);
        return i;
    }
    return -1;
}

void cr_temporary_drop(int slot) {
    if (slot >= 0) atomic_store(&slots[slot].state, FREE);
}

void cr_temporaries_remove(void) {
    for (int i = 0; i < SLOTS; i++)
        if (atomic_load(&slots[i].state) == NOTED) (void)!unlink(slots[i].path);
    for (int i = 0; i < SLOTS; i++) /* folders, empty by now */
        if (atomic_load(&slots[i].state) == NOTED) (void)!rmdir(slots[i].path);
}
