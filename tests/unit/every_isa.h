/* every_isa.h: runs a test program once more for each instruction set the products may use, each in its own process,
 * because the choice is made once. Call first in main: `if (every_isa(argv)) return every_isa_result();` */
#ifndef EVERY_ISA_H
#define EVERY_ISA_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int every_isa_failed;

static inline int every_isa_result(void) { return every_isa_failed ? 1 : 0; }

/* True in the parent, after the children have run. */
static inline int every_isa(char **argv) {
    if (getenv("CRESSET_ISA")) return 0;
    static const char *const names[] = { "portable", "avx2", "avx512" };
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();
        if (!pid) {
            setenv("CRESSET_ISA", names[i], 1);
            execv("/proc/self/exe", argv);
            _exit(127);
        }
        int status = 1;
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
            fprintf(stderr, "failed with CRESSET_ISA=%s\n", names[i]);
            every_isa_failed = 1;
        }
    }
    return 1;
}

#endif
