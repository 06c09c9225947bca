/* decode.h: code objects as canonical instructions.
 *
 * Every version's opcodes map to one set (instructions.def). Prefixes are dissolved: EXTENDED_ARG into the argument,
 * KW_NAMES and PRECALL into CALL, caches into nothing; a jump names the instruction it goes to. Code is read as it was
 * compiled (PyCode_GetCode), never as the interpreter has specialised it. */
#ifndef CR_DECODE_H
#define CR_DECODE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

typedef enum cr_instruction_id {
#define EVALUATED(name) CR_I_##name,
#define PLAIN(name, reason) CR_I_##name,
#include "capture/instructions.def"
#undef EVALUATED
#undef PLAIN
    CR_I_COUNT
} cr_instruction_id;

/* What a unit of code is: an instruction of its own, or part of the one around it. */
typedef enum cr_unit { CR_UNIT_NONE, CR_UNIT_OWN, CR_UNIT_EXTENDED_ARG, CR_UNIT_KW_NAMES, CR_UNIT_PRECALL,
                       CR_UNIT_CACHE } cr_unit;
typedef struct cr_opcode {
    const char *name;
    uint8_t id;    /* cr_instruction_id */
    uint8_t unit;  /* cr_unit */
    uint8_t caches;
    int8_t jump;   /* 1: forward by its argument, -1: backward, 0: no jump */
} cr_opcode;

typedef struct cr_instruction {
    uint8_t id;
    int32_t arg;     /* of a jump: the index of the instruction it goes to */
    int32_t kwnames; /* CALL: constant with the names of keyword arguments; -1: none */
    int32_t at;      /* its first unit, prefixes included: where a frame is entered to run it */
    int32_t own;     /* the unit of the opcode itself: what line numbers go by */
} cr_instruction;
/* Lives as long as its code object. */
typedef struct cr_code { int32_t count; cr_instruction at[]; } cr_code;

const char *cr_instruction_name(int id);
const char *cr_instruction_reason(int id); /* why capture ends before it; NULL: it is evaluated */
/* The instructions of a code object, decoded once. Borrowed. NULL: exception. */
const cr_code *cr_code_get(PyCodeObject *code);

#endif
