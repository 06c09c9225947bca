/* train.h: a program that gives a loss becomes the programs of a training library.
 *
 *     cr_training *t;
 *     CR_TRY(cr_training_create(loss, "adamw,weight_decay=0.1", &t));
 *     t->programs[CR_TRAIN_STEP] ...          -- methods that share state by name; lowered with whatever else is wanted
 *     cr_training_release(t);
 *
 * `step(inputs, lr=)` is forward, backward and update in one, `backward(inputs)` adds to the gradients and
 * `update(lr=)` applies and clears them; step leaves gradients that were added alone. All give what the loss program
 * gives. State beyond the program's own: "NAME@grad" and the optimizer's moments "NAME@exp_avg" for every parameter
 * that is trained (it requires grad, and the loss depends on it), the number of updates "@step", and "@grad_norm", the
 * norm before clipping in the last update, where there is clipping. No attribute of a module has such a name. */
#ifndef CR_TRAIN_H
#define CR_TRAIN_H

#include "export/program.h"

enum { CR_TRAIN_STEP, CR_TRAIN_BACKWARD, CR_TRAIN_UPDATE, CR_TRAIN_METHODS };
extern const char *const cr_train_method_names[CR_TRAIN_METHODS];
enum { CR_TRAIN_MOMENTS = 3 };

/* A parameter that is trained; names are those of state. */
typedef struct cr_trained {
    const char *name, *gradient, *moments[CR_TRAIN_MOMENTS];
    int32_t nmoments;
} cr_trained;

typedef struct cr_training {
    cr_arena arena;             /* texts and arrays below */
    cr_program *programs[CR_TRAIN_METHODS];
    const char *optimizer;      /* "adamw" */
    const char *counter;        /* state: how many updates were made */
    int32_t loss;               /* which of the program's results it is */
    cr_trained *parameters;     size_t nparameters;
} cr_training;

/* `optimizer`: a name and what differs from PyTorch's defaults, "sgd,momentum=0.9,nesterov=1". CR_EVALUE lists the
 * names that there are; it names a loss that is no single floating point number or depends on nothing that is trained,
 * and parameters whose memory is not their own and row-major, or that the program reads by two names. CR_ENOTIMPL: an
 * op without a derivative. The programs share the loss program's symbols, and may have added conditions on them: the
 * caller holds its lock while they are worked with, and takes the conditions back (cr_env_begin_trial). */
CR_NODISCARD cr_status cr_training_create(cr_program *loss, const char *optimizer, cr_training **out);
void cr_training_release(cr_training *t); /* NULL is legal */

/* Do they have one memory: a storage, or the same bytes of an archive? */
static inline bool cr_tensor_is_tied(const cr_tensor *a, const cr_tensor *b) {
    return a->storage == b->storage || (a->storage->bytes && a->storage->data == b->storage->data);
}

#endif
