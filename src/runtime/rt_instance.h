/* rt_instance.h: what an instance of a model holds, for the files behind cresset_api. */
#ifndef CRESSET_RT_INSTANCE_H
#define CRESSET_RT_INSTANCE_H

#include "runtime/rt_model.h"
#include "runtime/rt_random.h"
#include "runtime/rt_recycle.h"

#include <stdatomic.h>

/* What runs once in an instance's life is compiled to be small: every library carries it. */
#define SELDOM __attribute__((cold))

struct cresset_instance {
    const cresset_api *api;
    const rt_model *model;
    /* the library that holds the code: not unloaded before this instance ends; NULL: part of the program */
    void *self;
    int threads;             /* of a run */
    bool joined;             /* the users of the pools */
    rt_layouts *layouts;
    const uint8_t *weights;
    void *map;               /* of the file beside; NULL: inside */
    size_t map_size;
    uint8_t **state;         /* one per state entry; NULL: not mutable */
    cresset_op_function *ops; /* one per operator that the model calls */
    pthread_mutex_t lock;
    atomic_long pid;         /* process that the locks belong to; negative: that process is making them anew */
    rt_generator generator;
    rt_recycler *memory;
    void (*profile)(void *user, int32_t method, int32_t step, const char *origin, double seconds);
    void *profile_user;
};

/* The message, as far as there is room; the code. */
int rt__api_fail(char *message, size_t room, int code, const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Locks that a fork left to nobody are made anew: before any of the instance's is taken. */
void rt__notice_fork(cresset_instance *m);

#endif
