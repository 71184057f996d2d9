/* What is done to the world: its words, as they are noted, and how long each lasted.
 *
 * A note comes before what it announces has happened, so the state is looked at when the next thing
 * is told. */
#include "sim/report/internal.h"
#include "sim/world/disk.h"
#include "sim/world/network.h"

#include <stdlib.h>
#include <string.h>

void lh_sim_faults_begin(struct lh_sim_story *s)
{
    s->down = lh_alloc_array(s->nodes, sizeof *s->down);
    s->paused = lh_alloc_array(s->nodes, sizeof *s->paused);
    s->stalled = lh_alloc_array(s->nodes, sizeof *s->stalled);
    s->drift = lh_alloc_array(s->nodes, sizeof *s->drift);
    s->cut = lh_alloc_array(s->nodes * s->nodes, sizeof *s->cut);
    s->slow = lh_alloc_array(s->nodes * s->nodes, sizeof *s->slow);
    s->clogged = lh_alloc_array(s->nodes * s->nodes, sizeof *s->clogged);
}

/* `number` 0: it is not so (any more). */
static void set(struct lh_sim_story *s, struct fault *f, enum lh_sim_span_kind kind, int node,
    int peer, uint64_t number, uint64_t at)
{
    if (f->open && f->span.number == number)
        return;
    if (f->open)
        lh_sim_narrate_span(s, &f->span, at);
    f->open = number != 0;
    f->span = (struct lh_sim_span){
        .kind = kind, .node = node, .peer = peer, .number = number, .begin = at, .how = ""};
}

void lh_sim_faults_poll(struct lh_sim_story *s)
{
    uint64_t at = s->faults_at;

    if (!s->faults_changed)
        return;
    s->faults_changed = false;
    for (int i = 0; i < (int)s->nodes; i++) {
        const struct lh_sim_node *a = lh_sim_at_index(s, i);
        set(s, &s->stalled[i], LH_SIM_SPAN_STALLED, i, LH_SIM_NOBODY, lh_sim_disk_is_stalled(a),
            at);
        set(s, &s->drift[i], LH_SIM_SPAN_DRIFT, i, LH_SIM_NOBODY, (uint64_t)(int64_t)lh_sim_rate(a),
            at);
        for (int k = 0; k < (int)s->nodes; k++) {
            const struct lh_sim_node *b = lh_sim_at_index(s, k);
            size_t pair = (size_t)i * s->nodes + (size_t)k;
            if (i == k)
                continue;
            set(s, &s->cut[pair], LH_SIM_SPAN_CUT, i, k, lh_sim_is_cut(a, b), at);
            set(s, &s->slow[pair], LH_SIM_SPAN_SLOW, i, k, lh_sim_slowed_by(a, b).ns, at);
            set(s, &s->clogged[pair], LH_SIM_SPAN_CLOGGED, i, k, lh_sim_is_clogged(a, b), at);
        }
    }
}

/* Does the text name a node other than `node`? */
static bool names_another(const struct lh_sim_story *s, int node, const char *text)
{
    for (const char *word = text; *word != '\0';) {
        size_t size = strcspn(word, " :,");
        for (int i = 0; i < (int)s->nodes; i++) {
            const char *name = lh_sim_name(lh_sim_at_index(s, i));
            if (i != node && strlen(name) == size && strncmp(word, name, size) == 0)
                return true;
        }
        word += size + (word[size] != '\0');
    }
    return false;
}

/* Is the note about this node alone? Then it begins with its name. */
static bool about(const struct lh_sim_story *s, int node, const char *text, const char **rest)
{
    const char *name = lh_sim_name(lh_sim_at_index(s, node));
    size_t size = strlen(name);

    if (strncmp(text, name, size) != 0 || (text[size] != ' ' && text[size] != ':') ||
        names_another(s, node, text))
        return false;
    *rest = text + size + (text[size] == ':') + 1;
    return true;
}

void lh_sim_faults_noted(struct lh_sim_story *s, const char *text)
{
    struct lh_sim_transition t = {
        .topic = LH_SIM_TOPIC_FAULT, .node = LH_SIM_NOBODY, .peer = LH_SIM_NOBODY};

    for (int i = 0; i < (int)s->nodes && t.node == LH_SIM_NOBODY; i++)
        if (about(s, i, text, &text))
            t.node = i;
    lh_sim_narrate(s, t, "%s", text);
    s->faults_changed = true;
    s->faults_at = lh_sim_now(s->sim);
}

void lh_sim_faults_lives(struct lh_sim_story *s, struct lh_sim_node *node, enum lh_sim_life what)
{
    if (what == LH_SIM_LIFE_MOUNTED || what == LH_SIM_LIFE_RESTORED)
        return;
    int i = lh_sim_index(s, node);
    uint64_t at = lh_sim_now(s->sim);
    bool gone = what == LH_SIM_LIFE_STOPPED || what == LH_SIM_LIFE_CRASHED ||
                what == LH_SIM_LIFE_POWER_LOST;

    set(s, &s->paused[i], LH_SIM_SPAN_PAUSED, i, LH_SIM_NOBODY, what == LH_SIM_LIFE_PAUSED, at);
    set(s, &s->down[i], LH_SIM_SPAN_DOWN, i, LH_SIM_NOBODY, gone ? 1 + (uint64_t)what : 0, at);
    if (what == LH_SIM_LIFE_CRASHED)
        s->down[i].span.how = "crashed";
    else if (what == LH_SIM_LIFE_POWER_LOST)
        s->down[i].span.how = "lost power";
    else if (gone)
        s->down[i].span.how = "stopped";
}

static void close_all(struct lh_sim_story *s, struct fault *faults, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!faults[i].open)
            continue;
        faults[i].span.unfinished = true;
        lh_sim_narrate_span(s, &faults[i].span, lh_sim_now(s->sim));
        faults[i].open = false;
    }
}

void lh_sim_faults_end(struct lh_sim_story *s)
{
    lh_sim_faults_poll(s);
    close_all(s, s->down, s->nodes);
    close_all(s, s->paused, s->nodes);
    close_all(s, s->stalled, s->nodes);
    close_all(s, s->drift, s->nodes);
    close_all(s, s->cut, s->nodes * s->nodes);
    close_all(s, s->slow, s->nodes * s->nodes);
    close_all(s, s->clogged, s->nodes * s->nodes);
}

void lh_sim_faults_deinit(struct lh_sim_story *s)
{
    free(s->down);
    free(s->paused);
    free(s->stalled);
    free(s->drift);
    free(s->cut);
    free(s->slow);
    free(s->clogged);
}
