/* Appends its arguments to a file as records and prints the whole file.
 *
 *   cc example.c $(pkg-config --cflags --libs leasehold) -o example
 *   ./example 127.0.0.1:7400 /greetings hello world */
#include <leasehold.h>

#include <stdio.h>
#include <string.h>

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, lh_last_error());
    return 1;
}

int main(int argc, char **argv)
{
    struct lh_cluster *cluster;
    struct lh_appender *appender;
    struct lh_reader *reader;
    struct lh_record record;
    int error = argc < 3 ? LH_ERR_INVALID_ARGUMENT : lh_cluster_open(argv[1], NULL, &cluster);

    if (error != LH_OK)
        return failed("usage: example MASTERS PATH [RECORD]...");
    error = lh_create(cluster, argv[2], NULL, 10000, NULL);
    if (error != LH_OK && error != LH_ERR_ALREADY_EXISTS)
        return failed("create");
    if (lh_appender_open(cluster, argv[2], NULL, 10000, &appender) != LH_OK)
        return failed("open");
    for (int i = 3; i < argc; i++)
        if (lh_append_async(appender, argv[i], strlen(argv[i]), NULL, NULL, 10000) != LH_OK)
            return failed("append");
    if (lh_appender_close(appender, 60000) != LH_OK) /* waits until all are stored */
        return failed("flush");

    if (lh_reader_open(cluster, argv[2], NULL, 10000, &reader) != LH_OK)
        return failed("open");
    while ((error = lh_reader_next(reader, 10000, &record)) == LH_OK)
        printf("%.*s\n", (int)record.size, (const char *)record.data);
    lh_reader_close(reader);
    lh_cluster_close(cluster);
    return error == LH_END ? 0 : failed("read");
}
