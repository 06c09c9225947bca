/* replay.c: runs a fuzz target over stored inputs, without libFuzzer: `replay_NAME FOLDER-OR-FILE...`.
 * Each input is also run in a heap block of exactly its size, so that a sanitizer sees any read past the end. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static long inputs;

static int replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    struct stat info;
    if (!file || fstat(fileno(file), &info)) {
        fprintf(stderr, "cannot read %s\n", path);
        if (file) fclose(file);
        return 1;
    }
    size_t size = (size_t)info.st_size;
    uint8_t *data = malloc(size ? size : 1);
    int failed = !data || fread(data, 1, size, file) != size;
    fclose(file);
    if (failed) fprintf(stderr, "cannot read %s\n", path);
    else LLVMFuzzerTestOneInput(data, size), inputs++;
    free(data);
    return failed;
}

static int replay(const char *path) {
    struct stat info;
    if (stat(path, &info)) {
        fprintf(stderr, "there is no %s: a fuzz target needs a corpus of at least one input\n", path);
        return 1;
    }
    if (!S_ISDIR(info.st_mode)) return replay_file(path);
    DIR *folder = opendir(path);
    if (!folder) return 1;
    int failed = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        char child[4096];
        if ((size_t)snprintf(child, sizeof child, "%s/%s", path, entry->d_name) >= sizeof child) failed = 1;
        else failed |= replay(child);
    }
    closedir(folder);
    return failed;
}

int main(int argc, char **argv) {
    int failed = 0;
    for (int i = 1; i < argc; i++) failed |= replay(argv[i]);
    printf("%ld inputs replayed\n", inputs);
    return failed || !inputs;
}
