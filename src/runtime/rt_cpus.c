/* rt_cpus.c: how many threads this process may use at a time: the processors it may run on, and no more than the
 * processor time that its control group gives it (a container limited to two processors on a machine of 64 would only
 * be stopped more often with 64 threads). */
#define _GNU_SOURCE
#include "runtime/rt.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The beginning of a small file as text; false when there is none. */
static bool slurp(const char *path, char *text, size_t room) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, room - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* Processors that "QUOTA PERIOD" amounts to, rounded up; INT_MAX: no limit. */
static int processors(const char *quota, const char *period) {
    char *end;
    long long q = strtoll(quota, &end, 10);
    if (end == quota || q <= 0) return INT_MAX; /* "max", or -1 */
    long long p = strtoll(period, &end, 10);
    if (end == period || p <= 0) return INT_MAX;
    long long n = (q + p - 1) / p;
    return n < 1 ? 1 : n > INT_MAX ? INT_MAX : (int)n;
}

static int quota_of_folder(const char *root, const char *folder) {
    char path[2400], quota[64], period[64];
    snprintf(path, sizeof path, "%s%s/cpu.max", root, folder);
    if (slurp(path, quota, sizeof quota)) {
        const char *space = strchr(quota, ' ');
        return space ? processors(quota, space) : INT_MAX;
    }
    snprintf(path, sizeof path, "%s%s/cpu.cfs_quota_us", root, folder);
    if (!slurp(path, quota, sizeof quota)) return INT_MAX;
    snprintf(path, sizeof path, "%s%s/cpu.cfs_period_us", root, folder);
    return slurp(path, period, sizeof period) ? processors(quota, period) : INT_MAX;
}

/* The smallest quota of a group and those around it. */
static int quota_of_group(const char *root, const char *group) {
    char folder[1024];
    snprintf(folder, sizeof folder, "%s", group);
    folder[strcspn(folder, "\n")] = 0;
    int least = INT_MAX;
    for (;;) {
        int n = quota_of_folder(root, strcmp(folder, "/") ? folder : "");
        if (n < least) least = n;
        char *slash = strrchr(folder, '/');
        if (!slash || !*folder) return least;
        *slash = 0;
    }
}

/* /proc/self/cgroup has a line "ID:CONTROLLERS:GROUP" per hierarchy; version 2 is "0::GROUP". */
int rt__cgroup_cpus(const char *proc_file, const char *root) {
    char text[4096], v1[1100];
    if (!slurp(proc_file, text, sizeof text)) return INT_MAX;
    int least = INT_MAX;
    for (char *line = text; line && *line;) {
        char *next = strchr(line, '\n'), *controllers = strchr(line, ':'),
             *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (next) *next++ = 0;
        if (group && (!next || group < next)) {
            *group++ = 0;
            controllers++;
            bool is_v2 = !*controllers, has_cpu = !strcmp(controllers, "cpu") || !strncmp(controllers, "cpu,", 4) ||
                                                  strstr(controllers, ",cpu");
            snprintf(v1, sizeof v1, "%s/%s", root, is_v2 ? "" : "cpu");
            if (is_v2) v1[strlen(v1) - 1] = 0;
            int n = is_v2 || has_cpu ? quota_of_group(v1, group) : INT_MAX;
            if (n < least) least = n;
        }
        line = next;
    }
    return least;
}

int rt_usable_threads(void) {
    cpu_set_t set;
    long n = sched_getaffinity(0, sizeof set, &set) ? sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set);
    int quota = rt__cgroup_cpus("/proc/self/cgroup", "/sys/fs/cgroup");
    if (n > quota) n = quota;
    return n < 1 ? 1 : n > 1024 ? 1024 : (int)n;
}
