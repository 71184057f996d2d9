/* `leasehold watch`: changes of values as they happen (VAL-6), or what happens to locks. */
#include "client/command/command.h"

#include "client/command/json.h"

#include <inttypes.h>

#define COMMAND    "watch"
#define WAIT_MS    1000u /* between two looks at whether somebody still reads what is printed */
#define TEXT_BYTES 1024u /* of a value in a line */

struct options {
    struct lh_command_common common;
    uint64_t from, count;
    bool keys_only, locks;
};

static const char *kind_of(enum lh_watch_kind kind)
{
    switch (kind) {
    case LH_WATCH_CHANGED:
        return "put";
    case LH_WATCH_REMOVED:
        return "del";
    case LH_WATCH_RESET:
        return "reset";
    case LH_WATCH_LOCK_GRANTED:
        return "granted";
    case LH_WATCH_LOCK_RELEASED:
        return "released";
    case LH_WATCH_LOCK_ENDED:
        return "ended";
    case LH_WATCH_LOCK_CUT:
        return "cut";
    }
    return "unknown"; /* a newer library's */
}

static json_t *event_json(const struct lh_watch_event *e)
{
    json_t *json = json_pack("{s:s}", "event", kind_of(e->kind));

    if (e->kind == LH_WATCH_RESET)
        return json;
    if (e->holder != NULL) {
        (void)json_object_set_new(json, "name", lh_json_text(e->name));
        (void)json_object_set_new(json, "holder", lh_json_holder(e->holder));
        return json;
    }
    json_t *value = e->kind == LH_WATCH_CHANGED
                        ? lh_json_value(e->name, e->data, e->size, e->revision)
                        : json_pack("{s:o, s:I}", "name", lh_json_text(e->name), "revision",
                              (json_int_t)e->revision);
    if (e->kind == LH_WATCH_CHANGED)
        (void)json_object_set_new(value, "attached", json_boolean(e->attached));
    (void)json_object_update(json, value);
    json_decref(value);
    return json;
}

/* What does not fit on a line, or is no text, --json has. */
static void print_put(const struct lh_watch_event *e)
{
    char text[TEXT_BYTES];

    (void)snprintf(text, sizeof text, "%.*s",
        (int)(e->size < sizeof text ? e->size : sizeof text - 1),
        e->data != NULL ? (const char *)e->data : "");
    (void)printf(
        "%" PRIu64 " put %s %s\n", e->revision, lh_command_shown(e->name), lh_command_shown(text));
}

static void print_lock(const struct lh_watch_event *e)
{
    const struct lh_lock_holder *h = e->holder;

    (void)printf("%s %s", kind_of(e->kind), lh_command_shown(e->name));
    if (h->token != 0)
        (void)printf(" token %" PRIu64, h->token);
    if (h->shared)
        (void)printf(" shared");
    (void)printf(" by %s", lh_command_shown(h->label));
    (void)printf(" of %s", lh_command_shown(h->host));
    (void)printf(", process %s", lh_command_shown(h->process));
    if (h->cut)
        (void)printf(", ends in %.1f s", (double)h->left_ms / 1000);
    (void)puts("");
}

static void print_event(const struct options *o, const struct lh_watch_event *e)
{
    if (o->common.json) {
        lh_command_print_json_line(event_json(e));
        return;
    }
    if (e->holder != NULL)
        print_lock(e);
    else if (e->kind == LH_WATCH_RESET)
        (void)puts("reset");
    else if (e->kind == LH_WATCH_REMOVED || o->keys_only)
        (void)printf(
            "%" PRIu64 " %s %s\n", e->revision, kind_of(e->kind), lh_command_shown(e->name));
    else
        print_put(e);
}

static int follow(const struct options *o, struct lh_watch *watch, const char *prefix)
{
    for (uint64_t n = 0; o->count == 0 || n < o->count;) {
        struct lh_watch_event e;
        int error = lh_watch_next(watch, WAIT_MS, &e);
        if (error == LH_ERR_DEADLINE_EXCEEDED)
            continue;
        if (error != LH_OK)
            return lh_command_failed(COMMAND, prefix, error);
        print_event(o, &e);
        n++;
        if (fflush(stdout) != 0)
            return LH_EXIT_IO; /* said at the end */
    }
    return LH_EXIT_OK;
}

static int run(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct options *o = options;
    const char *prefix = args[0] != NULL ? args[0] : "";
    struct lh_watch *watch = NULL;
    uint64_t timeout_ms = lh_command_timeout_ms(&o->common);
    int error = o->locks ? lh_watch_locks_open(cluster, prefix, timeout_ms, &watch)
                         : lh_watch_open(cluster, prefix, o->from, timeout_ms, &watch);

    if (error != LH_OK)
        return lh_command_failed(COMMAND, prefix, error);
    int code = follow(o, watch, prefix);
    lh_watch_close(watch);
    return code;
}

static int check(void *options)
{
    const struct options *o = options;

    if (o->locks && (o->from != 0 || o->keys_only))
        return lh_command_error(LH_EXIT_USAGE, COMMAND,
            "--locks has no --from and no --keys-only: what happened to locks is not on record");
    return LH_EXIT_OK;
}

int lh_command_watch(int argc, char **argv)
{
    struct options o = {0};
    const struct lh_flag table[] = {
        {LH_FLAG("from", UINT, &o.from, "0"), .metavar = "REVISION",
            .help = "every change from this revision on; 0: what is there, and then every change"},
        {LH_FLAG("count", UINT, &o.count, "0"), .help = "end after so many events; 0: never"},
        {LH_FLAG("keys-only", BOOL, &o.keys_only, NULL), .help = "names without values"},
        {LH_FLAG("locks", BOOL, &o.locks, NULL), .letter = 'l',
            .help = "not values: who holds locks, and what happens to them"},
    };
    const struct lh_command command = {
        .usage = "[OPTION]... [PREFIX]",
        .summary =
            "Prints a line for each change of a value whose name begins with PREFIX, or of all: "
            "revision,\n\"put\" or \"del\", name, value. Each change once and in order, over lost "
            "connections and changes of\nmasters. \"reset\": what was printed before does not "
            "count any more, all that is there follows.\nWith --json a line has a "
            "document.\n\nWith --locks: a line for each lock "
            "that is held, and then for each that is \"granted\", \"released\", \"cut\" "
            "(cancelled, or given up: it ends in that time), or has \"ended\". What happened "
            "before a "
            "\"reset\" is not reported.",
        LH_FLAG_ROWS(table),
        .args_max = 1,
        .check = check,
        .run = run,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}
