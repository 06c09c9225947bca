/* doctor.c: `cresset doctor`: what this machine offers, and with a file, whether all of it is sound.
 *
 * The machine part never fails for something that is merely missing (without a C compiler the interpreter still runs
 * everything); it fails when the tool itself is not in order. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include "cresset/check.h"
#include "cresset/ops.h"
#include "cresset/process.h"

#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

extern char **environ;

static const cli_option options[] = {
    { .name = "json", .kind = CLI_FLAG, .help = "the report as JSON" },
    { .name = NULL },
};

typedef struct doctor {
    cr_str out;
    cr_json_writer *json; /* NULL: plain lines */
    cr_str problem_list;  /* with json: one line each */
    size_t problems;
    const char *path;     /* the file, or NULL */
    cli_progress progress;
} doctor;

/* One line "key value". */
static void doctor_add(doctor *d, const char *key, const char *format, ...) CR_PRINTF(3, 4);
/* Something is wrong: the exit code will be 1, the examination goes on. */
static void doctor_problem(doctor *d, const char *format, ...) CR_PRINTF(2, 3);

static void doctor_add(doctor *d, const char *key, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (d->json) {
        cr_str value;
        cr_str_init(&value);
        cr_str_addv(&value, format, args);
        cr_json_key(d->json, key);
        cr_json_string(d->json, cr_str_get(&value), value.n);
        cli_str_done(&value, &d->out);
    } else {
        cr_str_addf(&d->out, "%-14s", key);
        cr_str_addv(&d->out, format, args);
        cr_str_addc(&d->out, '\n');
    }
    va_end(args);
}

static void doctor_problem(doctor *d, const char *format, ...) {
    va_list args;
    va_start(args, format);
    cr_str *out = d->json ? &d->problem_list : &d->out;
    if (!d->json) cr_str_addf(out, "%-14s", "WRONG");
    cr_str_addv(out, format, args);
    cr_str_addc(out, '\n');
    va_end(args);
    d->problems++;
}

/* ---- the compiler ---- */

/* The first line that `program --version` prints. False: it cannot be started. */
static bool first_line(const char *program, cr_str *out) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) return false;
    posix_spawn_file_actions_t actions;
    char *argv[] = { (char *)program, "--version", NULL };
    pid_t child;
    bool started = !posix_spawn_file_actions_init(&actions);
    if (started) {
        started = !posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) &&
                  !posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) &&
                  !posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) &&
                  !posix_spawnp(&child, program, &actions, NULL, argv, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    close(ends[1]);
    bool line = started;
    char c;
    while (started && read(ends[0], &c, 1) == 1) { /* to the end, so that the child is not cut off */
        if (c == '\n') line = false;
        if (line && out->n < 200) cr_str_addc(out, (unsigned char)c < 32 ? '?' : c);
    }
    close(ends[0]);
    int code = 1;
    if (started) waitpid(child, &code, 0);
    return started && code == 0;
}

static void report_compiler(doctor *d) {
    const char *names[] = { getenv("CRESSET_CC"), "cc", "gcc", "clang" };
    for (size_t i = 0; i < CLI_COUNT(names); i++) {
        if (!names[i] || !names[i][0]) continue;
        cr_str line;
        cr_str_init(&line);
        bool found = first_line(names[i], &line);
        if (found) doctor_add(d, "compiler", "%s: %s", names[i], cr_str_get(&line));
        cli_str_done(&line, &d->out);
        if (found) return;
        if (i == 0)
            doctor_problem(d, "CRESSET_CC is '%s', which does not run: set it to a C compiler, or unset it", names[0]);
    }
    doctor_add(d, "compiler", "none found (cc, gcc, clang, CRESSET_CC): programs run on the interpreter all the same");
}

/* ---- processor and memory ---- */

/* The value of "key : value" in a file of /proc; false: not there. */
static bool proc_value(const char *path, const char *key, cr_str *out) {
    FILE *file = fopen(path, "re");
    char line[1024];
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        size_t n = strlen(key);
        if (strncmp(line, key, n) || !strchr(" \t:", line[n])) continue;
        char *colon = strchr(line, ':');
        if (!colon) continue;
        colon += 1 + strspn(colon + 1, " \t");
        colon[strcspn(colon, "\n")] = 0;
        cr_str_add(out, colon);
        found = true;
    }
    if (file) fclose(file);
    return found;
}

static uint64_t memory_kilobytes(doctor *d, const char *key) {
    cr_str text;
    cr_str_init(&text);
    uint64_t value = proc_value("/proc/meminfo", key, &text) ? strtoull(cr_str_get(&text), NULL, 10) : 0;
    cli_str_done(&text, &d->out);
    return value;
}

static void report_processor(doctor *d) {
    cr_str text;
    cr_str_init(&text);
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    if (!proc_value("/proc/cpuinfo", "model name", &text)) cr_str_add(&text, "unknown model");
    cr_str_addf(&text, ", %d usable core%s", cores, cores == 1 ? "" : "s");
    doctor_add(d, "processor", "%s", cr_str_get(&text));
    cli_str_done(&text, &d->out);

    cr_str_init(&text);
    cr_str_addf(&text, "%s in use", cr_isa_used());
    cr_str features;
    cr_str_init(&features);
    cr_processor_describe(&features);
    if (features.n) cr_str_addf(&text, "; the processor has %s", cr_str_get(&features));
    cli_str_done(&features, &text);
    const char *limit = getenv("CRESSET_ISA");
    if (limit && *limit) cr_str_addf(&text, "; CRESSET_ISA=%s", limit);
    doctor_add(d, "instructions", "%s", cr_str_get(&text));
    cli_str_done(&text, &d->out);
    doctor_add(d, "threads", "%d", cr_num_threads());

    cr_str_init(&text);
    cr_str_add_bytes(&text, memory_kilobytes(d, "MemAvailable") * 1024);
    cr_str_add(&text, " free of ");
    cr_str_add_bytes(&text, memory_kilobytes(d, "MemTotal") * 1024);
    doctor_add(d, "memory", "%s", cr_str_get(&text));
    cli_str_done(&text, &d->out);
}

/* ---- the file ---- */

/* Keys stand in a column of 14; what is longer (the name of a program is part of it) has a space behind it. */
static void tell(void *user, int kind, const char *what, const char *text) {
    if (kind == CR_CHECK_PROBLEM) doctor_problem(user, "%s", text);
    else doctor_add(user, what, "%s%s", strlen(what) < 14 ? "" : " ", text);
}

static void show_progress(void *user, uint64_t bytes, uint64_t total) {
    doctor *d = user;
    if (!d->progress.what) cli_progress_begin(&d->progress, d->path, total);
    cli_progress_add(&d->progress, bytes - d->progress.done);
}

static cr_status examine_file(doctor *d) {
    cr_check_options options = { sizeof options, tell, show_progress, d };
    cr_status status = cr_check_file(d->path, &options);
    cli_progress_end(&d->progress);
    return status;
}

/* ---- the command ---- */

static cr_status examine(doctor *d) {
    doctor_add(d, "cresset", "%s, built by %s", cli_version,
#if defined(__clang__)
               "clang " __clang_version__
#else
               "gcc " __VERSION__
#endif
    );
    doctor_add(d, "zlib", "%s", zlibVersion());
    report_processor(d);
    report_compiler(d);
    if (cr_ops_init()) {
        doctor_problem(d, "the op table: %s", cr_error_message());
        if (cr_error_code() == CR_ENOMEM) return CR_ENOMEM;
    } else {
        doctor_add(d, "ops", "%zu", cr_op_count());
    }
    return d->path ? examine_file(d) : CR_OK;
}

/* The texts gathered by doctor_problem, a line each, as an array. */
static void add_problem_list(doctor *d) {
    cr_json_key(d->json, "problems");
    cr_json_open(d->json, '[');
    for (const char *line = cr_str_get(&d->problem_list); *line;) {
        size_t n = strcspn(line, "\n");
        cr_json_string(d->json, line, n);
        line += n + (line[n] == '\n');
    }
    cr_json_close(d->json, ']');
}

static cr_status run(const cli_call *call) {
    doctor d = { .path = cli_operand(call, 0) };
    cr_json_writer writer;
    if (cli_flag(call, "json")) {
        d.json = &writer;
        cr_json_writer_init(&writer, &d.out, 2);
        cr_json_open(&writer, '{');
    }
    cr_status status = examine(&d);
    if (d.json && !status) {
        add_problem_list(&d);
        cr_json_close(&writer, '}');
        cr_str_addc(&d.out, '\n');
    }
    if (!status) status = cr_str_status(&d.problem_list);
    if (!status) status = cli_print(&d.out);
    if (!status && d.problems) {
        if (d.path) cli_hint("the lines above say what; fetch or export the file again");
        else cli_hint("the lines above say what");
        status = CR_FAIL(CR_ERUNTIME, "%s: %zu problem%s", d.path ? d.path : "this machine", d.problems,
                         d.problems == 1 ? "" : "s");
    }
    cr_str_dispose(&d.out);
    cr_str_dispose(&d.problem_list);
    return status;
}

const cli_command cli_doctor = {
    .name = "doctor",
    .summary = "checks this machine, or every byte of a file",
    .operands = "[FILE]",
    .most = 1,
    .files = "pt2 npz safetensors",
    .options = options,
    .text = "Without a file: versions, processor, threads, memory, C compiler.\n"
            "With one: every checksum, then each program as a whole: structure, graph, signature,\n"
            "weights. Exit code 1 when something is wrong.",
    .examples = "  cresset doctor\n  cresset doctor model.pt2\n",
    .run = run,
};
