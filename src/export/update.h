/* update.h: optimizers of training libraries: what is read of "adamw,weight_decay=0.1", and the calls of one update. */
#ifndef CR_EXPORT_UPDATE_H
#define CR_EXPORT_UPDATE_H

#include "ops/op.h"

enum { CR__UPDATE_KEYS = 10, CR__UPDATE_MOMENTS = 3, CR__UPDATE_PATTERNS = 16 };

typedef struct cr__pattern { char text[120]; } cr__pattern;

typedef struct cr__update {
    const struct cr__optimizer *optimizer;
    double values[CR__UPDATE_KEYS]; /* of the optimizer's keys, in its order */
    double clip_norm;               /* 0: gradients are not clipped */
    int32_t loss;                   /* which result of the program */
    cr__pattern no_decay[CR__UPDATE_PATTERNS]; /* of names: those have no weight decay */
    int32_t nno_decay;
} cr__update;

/* CR_EVALUE: an optimizer or key that there is not (the message has those there are), a value that is no number or
 * outside of what PyTorch takes. */
CR_NODISCARD cr_status cr__update_parse(const char *text, cr__update *out);
const char *cr__update_name(const cr__update *u); /* "adamw" */
/* What is kept of each parameter, by the names of PyTorch's state: "exp_avg". */
int32_t cr__update_moments(const cr__update *u, const char *names[CR__UPDATE_MOMENTS]);

/* A bit for each pattern that the name matches; 0: the parameter decays. */
uint32_t cr__update_spares(const cr__update *u, const char *name);

/* Lists in the order of the parameters; `moments`: one list per name of cr__update_moments. */
typedef struct cr__update_call {
    cr_arg parameters, gradients, moments[CR__UPDATE_MOMENTS], steps;
    cr_arg lr;
    const bool *spared; /* per parameter: it has no weight decay; NULL: all have */
} cr__update_call;
/* The calls of one update: parameters and moments are written where they lie. *norm: that of all gradients, where they
 * are clipped. */
CR_NODISCARD cr_status cr__update_emit(const cr__update *u, cr_emitter *e, const cr__update_call *call, cr_arg *norm);

#endif
