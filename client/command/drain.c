/* `leasehold drain`, `undrain`, `decommission`: taking a chunkserver out of work. */
#include "client/command/command.h"

#include "base/plural.h"
#include "client/command/json.h"
#include "client/command/progress.h"

#include <inttypes.h>
#include <string.h>

#define POLL_MS  500u
#define STUCK_MS 60000u /* nothing moved for so long: say what to look at */

struct options {
    struct lh_command_common common;
    const char *command;
    enum lh_server_admin admin;
    bool wait;
    struct lh_duration give_up;
};

/* How it stands with the server. */
struct state {
    bool gone; /* the master has forgotten it: a decommissioning that is over */
    bool safe;
    uint64_t replicas_to_move, primaries;
    char obstacle[256]; /* empty: none is known */
};

static struct state state_of(const struct lh_server_info *s)
{
    struct state state = {
        .safe = s->safe_to_stop,
        .replicas_to_move = s->replicas_to_move,
        .primaries = s->primaries,
    };
    (void)snprintf(state.obstacle, sizeof state.obstacle, "%s", s->obstacle);
    return state;
}

/* Asks for all servers; LH_OK with `*state` of the one. */
static int look(
    struct lh_cluster *cluster, const struct options *o, const char *server_id, struct state *state)
{
    struct lh_server_list list = {0};
    int error = lh_servers(cluster, lh_command_timeout_ms(&o->common), &list);
    if (error != LH_OK)
        return error;
    *state = (struct state){.gone = true, .safe = true};
    for (size_t i = 0; i < list.count; i++) {
        if (strcmp(list.servers[i].server_id, server_id) == 0)
            *state = state_of(&list.servers[i]);
    }
    lh_server_list_deinit(&list);
    return LH_OK;
}

static bool over(const struct state *s)
{
    return s->gone || s->safe;
}

/* Until nothing is left on it. A master that is away for a while ends nothing: the drain is
 * written down there, and goes on. */
static int wait_until_safe(
    struct lh_cluster *cluster, const struct options *o, const char *server_id, struct state *state)
{
    struct lh_progress progress;
    uint64_t give_up_ms = lh_duration_ms(o->give_up);
    uint64_t begun_ms = lh_command_now_ms(), moved_ms = begun_ms;
    bool stuck = false;
    int code = LH_EXIT_OK;
    lh_progress_begin(&progress);
    while (!over(state)) {
        uint64_t before = state->replicas_to_move + state->primaries;
        lh_command_pause(POLL_MS);
        int error = look(cluster, o, server_id, state);
        uint64_t now_ms = lh_command_now_ms();
        if (error != LH_OK && !lh_error_may_retry(error)) {
            code = lh_command_failed(o->command, server_id, error);
            break;
        }
        if (over(state))
            break;
        if (give_up_ms > 0 && now_ms - begun_ms >= give_up_ms) {
            lh_progress_clear(&progress);
            code = lh_command_error(LH_EXIT_UNKNOWN, o->command,
                "%s still has %" PRIu64 " replica%s and %" PRIu64
                " lease%s to hand over; that goes "
                "on, leasehold servers shows how far it is%s%s",
                server_id, state->replicas_to_move, lh_plural(state->replicas_to_move),
                state->primaries, lh_plural(state->primaries),
                state->obstacle[0] == '\0' ? "" : ". ", state->obstacle);
            break;
        }
        if (error != LH_OK)
            lh_progress_show(&progress, "%s: %s; asking on", server_id, lh_last_error());
        else
            lh_progress_show(&progress,
                "%s: %" PRIu64 " replica%s and %" PRIu64 " lease%s to hand over", server_id,
                state->replicas_to_move, lh_plural(state->replicas_to_move), state->primaries,
                lh_plural(state->primaries));
        if (error != LH_OK || state->replicas_to_move + state->primaries != before)
            moved_ms = now_ms;
        if (!stuck && now_ms - moved_ms >= STUCK_MS) {
            stuck = true;
            lh_progress_clear(&progress);
            (void)lh_command_error(0, o->command, "nothing has moved for a while. %s",
                state->obstacle[0] != '\0'
                    ? state->obstacle
                    : "Are there enough other servers with room (leasehold servers), and can its "
                      "chunks be read (leasehold fsck)?");
        }
    }
    lh_progress_clear(&progress);
    return code;
}

static void print_result(const struct options *o, const char *server_id, const struct state *s)
{
    if (o->common.json) {
        lh_command_print_json(json_pack("{s:o, s:s, s:b, s:b, s:I, s:I}", "server_id",
            lh_json_text(server_id), "admin", lh_command_server_admin(o->admin), "safe_to_stop",
            (int)s->safe, "forgotten", (int)s->gone, "replicas_to_move",
            (json_int_t)s->replicas_to_move, "primaries", (json_int_t)s->primaries));
    } else if (o->admin == LH_SERVER_ACTIVE) {
        (void)printf(
            "%s is active: it gets leases and replicas again\n", lh_command_shown(server_id));
    } else if (s->gone) {
        (void)printf("%s holds nothing any more and is forgotten: switch it off and keep it off\n",
            lh_command_shown(server_id));
    } else if (s->safe) {
        (void)printf("%s holds nothing that is needed: it can be switched off\n",
            lh_command_shown(server_id));
    } else {
        (void)printf("%s is %s: %" PRIu64 " replica%s and %" PRIu64
                     " lease%s to hand over. Leave it "
                     "on until leasehold servers says that it is safe to stop\n",
            lh_command_shown(server_id), lh_command_server_admin(o->admin), s->replicas_to_move,
            lh_plural(s->replicas_to_move), s->primaries, lh_plural(s->primaries));
        if (s->obstacle[0] != '\0')
            (void)printf("%s\n", lh_command_shown(s->obstacle));
    }
}

static int set_server(void *options, struct lh_cluster *cluster, const char **args)
{
    const struct options *o = options;
    const char *server_id = args[0];
    struct lh_server_info info = {0};
    int error =
        lh_set_server(cluster, server_id, o->admin, lh_command_timeout_ms(&o->common), &info);
    if (error != LH_OK)
        return lh_command_failed(o->command, server_id, error);
    struct state state = state_of(&info);
    lh_server_info_deinit(&info);
    int code = o->wait ? wait_until_safe(cluster, o, server_id, &state) : LH_EXIT_OK;
    if (code == LH_EXIT_OK || (code == LH_EXIT_UNKNOWN && o->common.json))
        print_result(o, server_id, &state);
    return code;
}

/* `drain` and `decommission`. */
static int run_waiting(int argc, char **argv, struct options *o, const char *summary)
{
    const struct lh_flag table[] = {
        {LH_FLAG("wait", BOOL, &o->wait, NULL), .letter = 'w',
            .help = "stay until it can be switched off, and show how far it is; Ctrl-C ends the "
                    "waiting alone"},
        {LH_FLAG("give-up", DURATION, &o->give_up, "0s"),
            .help = "with --wait: for how long to wait; 0: for ever"},
    };
    const struct lh_command command = {
        .usage = "[OPTION]... SERVER",
        .summary = summary,
        LH_FLAG_ROWS(table),
        .args_min = 1,
        .args_max = 1,
        .run = set_server,
        .options = o,
    };
    o->command = argv[0];
    return lh_command_run(&command, argc, argv);
}

int lh_command_drain(int argc, char **argv)
{
    struct options o = {.admin = LH_SERVER_DRAINING};
    return run_waiting(argc, argv, &o,
        "Moves what a chunkserver holds to others: its leases at once, its replicas as fast as "
        "they are\ncopied. Nothing that is appended meanwhile is lost. It stays drained, also "
        "over restarts,\nuntil `leasehold undrain`.");
}

int lh_command_decommission(int argc, char **argv)
{
    struct options o = {.admin = LH_SERVER_DECOMMISSIONING};
    return run_waiting(argc, argv, &o,
        "Moves what a chunkserver holds to others and then forgets the server. What registers "
        "under its\nname after that is refused, until `leasehold undrain`.");
}

int lh_command_undrain(int argc, char **argv)
{
    struct options o = {.admin = LH_SERVER_ACTIVE, .command = argv[0]};
    const struct lh_command command = {
        .usage = "[OPTION]... SERVER",
        .summary = "Takes back a drain or a decommissioning: the chunkserver gets leases and "
                   "replicas again.",
        .args_min = 1,
        .args_max = 1,
        .run = set_server,
        .options = &o,
    };
    return lh_command_run(&command, argc, argv);
}
