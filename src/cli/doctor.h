/* doctor.h: the report that doctor.c begins and doctor_file.c goes on with. */
#ifndef CR_CLI_DOCTOR_H
#define CR_CLI_DOCTOR_H

#include "archive/json.h"
#include "cli/cli.h"

typedef struct doctor {
    cr_str out;
    cr_json_writer *json; /* NULL: plain lines */
    cr_str problem_list;  /* with json: one line each */
    size_t problems;
} doctor;
/* One line "key value". */
void doctor_add(doctor *d, const char *key, const char *format, ...) CR_PRINTF(3, 4);
/* Something is wrong: the exit code will be 1, the examination goes on. */
void doctor_problem(doctor *d, const char *format, ...) CR_PRINTF(2, 3);
/* Fails only when the examination itself cannot go on (no such file, out of memory). */
CR_NODISCARD cr_status doctor_file(doctor *d, const char *path);

#endif
