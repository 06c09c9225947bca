/* decode.h: code objects as canonical instructions.
 *
 * Every version's opcodes map to one set (instructions.def). Prefixes are dissolved: EXTENDED_ARG into the argument,
 * KW_NAMES and PRECALL into CALL, caches into nothing; a jump names the instruction it goes to. What a version puts on
 * the stack stays that version's, since frames are entered in the middle: CR_CALLABLE_FIRST. Code is read as it was
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
/* Arguments that say more than one thing: from 3.12 on LOAD_ATTR's lowest bit asks for a method and the operator of
 * COMPARE_OP stands above a mask (3.13: and a bit that asks for a bool); an intrinsic is an instruction by number. */
typedef enum cr_form { CR_FORM_ONE, CR_FORM_METHOD_BIT, CR_FORM_COMPARISON_12, CR_FORM_COMPARISON_13,
                       CR_FORM_INTRINSIC_1, CR_FORM_INTRINSIC_2 } cr_form;
typedef struct cr_opcode {
    const char *name;
    uint8_t id;    /* cr_instruction_id */
    uint8_t unit;  /* cr_unit */
    uint8_t caches;
    int8_t jump;   /* 1: forward by its argument, -1: backward, 0: no jump */
    uint8_t behind; /* instructions at the target that the jump passes over */
    uint8_t form;  /* cr_form */
} cr_opcode;

typedef struct cr_instruction {
    uint8_t id;
    int32_t arg;     /* of a jump: the index of the instruction it goes to; COMPARE_OP: CR_COMPARE_BOOL and up */
    int32_t kwnames; /* CALL: constant with the names of keyword arguments; -1: none */
    int32_t at;      /* its first unit, prefixes included: where a frame is entered to run it */
    int32_t own;     /* the unit of the opcode itself: what line numbers go by */
} cr_instruction;
/* Stack beneath the arguments of a call: the callable, then NULL or self; before 3.13 NULL, then the callable, or the
 * method, then self. */
enum { CR_CALLABLE_FIRST = PY_VERSION_HEX >= 0x030D0000 };
enum { CR_COMPARE_BOOL = 16 }; /* in the argument of COMPARE_OP: the result's truth is wanted */
/* Where an exception goes that an instruction of units [first, end) raises. */
typedef struct cr_handler_range {
    int32_t first, end;
    int32_t to;    /* instruction */
    int32_t depth; /* what is left of the stack */
    bool lasti;    /* the unit that raised is pushed, too */
} cr_handler_range;
/* Lives as long as its code object. */
typedef struct cr_code {
    int32_t count, nranges;
    Py_ssize_t entries; /* captured of it and kept, by all who compiled it; under the GIL */
    bool skipped;       /* its frames run plain (skip_code()) */
    cr_handler_range *ranges; /* behind the instructions */
    cr_instruction at[];
} cr_code;
/* The range of a unit; NULL: nothing handles what is raised there. */
const cr_handler_range *cr_code_handler(const cr_code *code, int32_t unit);

const char *cr_instruction_name(int id);
const char *cr_instruction_reason(int id); /* why capture ends before it; NULL: it is evaluated */
/* The instructions of a code object, decoded once. Borrowed. NULL: exception. */
const cr_code *cr_code_get(PyCodeObject *code);
/* Its frames run plain from now on. -1: exception. */
int cr_code_skip(PyCodeObject *code);
/* So many more entries are kept of it; 0: asks. Gives how many there are. */
Py_ssize_t cr_code_count(PyCodeObject *code, Py_ssize_t more);

#endif
