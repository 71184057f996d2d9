/* `leasehold top` on a terminal, with ncurses; see top_screen.h. */
#include "client/command/top_screen.h"

#include "client/command/command.h"
#include "client/command/top_feed.h"

#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#include <time.h>
#include <unistd.h>

#define COMMAND     "top"
#define CLOCK_MS    1000 /* how often the time of day is drawn again */
#define EMPTY_READS 3u   /* input that is readable and holds nothing: the terminal is gone */

const char *lh_top_screen_obstacle(void)
{
    static char text[256];
    const char *name = getenv("TERM");
    int error = 0;

    if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1)
        return "standard input and output are no terminal: --once and --batch print plain text";
    if (name == NULL || name[0] == '\0' || setupterm(name, STDOUT_FILENO, &error) != OK) {
        (void)snprintf(text, sizeof text,
            "the terminal '%.64s' is unknown here: set TERM to one that infocmp knows, or use "
            "--batch",
            name == NULL ? "" : name);
        return text;
    }
    char *moves = tigetstr("cup");
    bool able = moves != NULL && moves != (char *)-1;
    (void)del_curterm(cur_term);
    if (able)
        return NULL;
    (void)snprintf(text, sizeof text,
        "the terminal '%.64s' cannot place its cursor: set TERM to another one, or use --batch",
        name);
    return text;
}

/* --- signals ------------------------------------------------------------------------------ */

static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
#define CAUGHT (sizeof caught / sizeof caught[0])

static int signals[2] = {-1, -1}; /* a pipe: what came, a byte each */

static void on_signal(int number)
{
    int saved = errno;
    char byte = (char)number;

    (void)!write(signals[1], &byte, 1); /* full: enough is to be done */
    errno = saved;
}

static void all_signals(sigset_t *set)
{
    (void)sigemptyset(set);
    for (size_t i = 0; i < CAUGHT; i++)
        (void)sigaddset(set, caught[i]);
    (void)sigaddset(set, SIGTSTP); /* curses' own: it gives the terminal back, and takes it again */
}

void lh_top_screen_prepare(void)
{
    sigset_t set;

    all_signals(&set);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static bool take_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigset_t set;

    if (pipe2(signals, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    for (size_t i = 0; i < CAUGHT; i++)
        (void)sigaction(caught[i], &action, NULL);
    all_signals(&set);
    return pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0;
}

/* --- drawing ------------------------------------------------------------------------------ */

struct ui {
    struct lh_top_screen *screen;
    struct lh_top_feed *feed;
    struct lh_top_history history;
    SCREEN *terminal;
    bool colours, help;
    size_t offset; /* of the first row of the body that is shown */
    size_t page;   /* rows of the body that fit */
    unsigned empty_reads;
};

enum { PAIR_WARN = 1, PAIR_BAD };

static attr_t attributes(const struct ui *ui, enum lh_top_style style)
{
    switch (style) {
    case LH_TOP_PLAIN:
        return A_NORMAL;
    case LH_TOP_HEAD:
        return A_REVERSE;
    case LH_TOP_TITLE:
        return A_BOLD;
    case LH_TOP_WARN:
        return ui->colours ? (attr_t)COLOR_PAIR(PAIR_WARN) : A_BOLD;
    case LH_TOP_BAD:
        return ui->colours ? (attr_t)COLOR_PAIR(PAIR_BAD) | A_BOLD : A_BOLD;
    }
    return A_NORMAL;
}

static void put(const struct ui *ui, int y, const struct lh_top_row *row)
{
    (void)attrset((int)attributes(ui, row->style));
    (void)mvaddstr(y, 0, row->text);
    (void)attrset(A_NORMAL);
}

static void time_of_day(char text[16])
{
    time_t now = time(NULL);
    struct tm parts;

    text[0] = '\0';
    if (localtime_r(&now, &parts) != NULL)
        (void)strftime(text, 16, "%H:%M:%S", &parts);
}

static void draw(struct ui *ui)
{
    int height = LINES, width = COLS, y = 0;
    struct lh_top_rows head = {.width = (unsigned)width}, body = {.width = (unsigned)width};
    char clock[16];

    time_of_day(clock);
    ui->screen->clock = clock;
    ui->screen->now_ms = lh_command_now_ms();
    lh_top_head(&ui->history, ui->screen, &head);
    if (ui->help)
        lh_top_help(&body);
    else
        lh_top_body(&ui->history, ui->screen, &body);
    ui->page = (size_t)height > head.count ? (size_t)height - head.count : 1;
    size_t most = body.count > ui->page ? body.count - ui->page : 0;
    ui->offset = ui->offset < most ? ui->offset : most;
    (void)erase();
    for (size_t i = 0; i < head.count && y < height; i++)
        put(ui, y++, &head.items[i]);
    for (size_t i = ui->offset; i < body.count && y < height; i++)
        put(ui, y++, &body.items[i]);
    (void)move(height - 1, width - 1); /* where no cursor can be hidden it is out of the way */
    (void)refresh();
    lh_top_rows_deinit(&head);
    lh_top_rows_deinit(&body);
    ui->screen->clock = "";
}

static void resize(void)
{
    struct winsize size = {0};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
        (void)resizeterm(size.ws_row, size.ws_col);
    (void)clearok(curscr, TRUE);
}

/* --- the terminal ------------------------------------------------------------------------- */

static bool begin(struct ui *ui)
{
    ui->terminal = newterm(NULL, stdout, stdin);
    if (ui->terminal == NULL)
        return false;
    (void)cbreak();
    (void)noecho();
    (void)nonl();
    (void)curs_set(0);
    (void)keypad(stdscr, TRUE);
    (void)nodelay(stdscr, TRUE);
    (void)set_escdelay(50); /* ms: a key that sends several bytes sends them at once */
    const char *none = getenv("NO_COLOR");
    ui->colours = (none == NULL || none[0] == '\0') && has_colors() && start_color() == OK &&
                  use_default_colors() == OK && init_pair(PAIR_WARN, COLOR_YELLOW, -1) == OK &&
                  init_pair(PAIR_BAD, COLOR_RED, -1) == OK;
    return true;
}

/* The feed may be in a call that takes seconds more. Nothing that it does has to be ended. */
_Noreturn static void end(int code)
{
    (void)endwin();
    (void)fflush(stdout);
    _exit(code);
}

/* --- keys --------------------------------------------------------------------------------- */

static void show_view(struct ui *ui, unsigned view)
{
    ui->screen->view = (enum lh_top_view)(view % LH_TOP_VIEWS);
    ui->help = false;
    ui->offset = 0;
    lh_top_feed_view(ui->feed, ui->screen->view);
}

static void scroll_by(struct ui *ui, size_t rows, bool down)
{
    if (down)
        ui->offset += rows; /* draw() bounds it */
    else
        ui->offset = ui->offset > rows ? ui->offset - rows : 0;
}

static void moved(struct ui *ui, int key)
{
    switch (key) {
    case KEY_UP:
    case 'k':
        scroll_by(ui, 1, false);
        break;
    case KEY_DOWN:
    case 'j':
        scroll_by(ui, 1, true);
        break;
    case KEY_PPAGE:
        scroll_by(ui, ui->page, false);
        break;
    case KEY_NPAGE:
    case ' ':
        scroll_by(ui, ui->page, true);
        break;
    case KEY_HOME:
    case 'g':
        ui->offset = 0;
        break;
    case KEY_END:
    case 'G':
        ui->offset = SIZE_MAX / 2;
        break;
    default:
        break;
    }
}

static void pressed(struct ui *ui, int key)
{
    unsigned view = (unsigned)ui->screen->view;

    switch (key) {
    case 'q':
    case 'Q':
        end(LH_EXIT_OK);
    case 'h':
    case '?':
        ui->help = !ui->help;
        ui->offset = 0;
        break;
    case 'p':
        ui->screen->paused = !ui->screen->paused;
        lh_top_feed_pause(ui->feed, ui->screen->paused);
        break;
    case 's':
        lh_top_next_sort(ui->screen);
        break;
    case '\t':
        show_view(ui, view + 1);
        break;
    case KEY_BTAB:
        show_view(ui, view + LH_TOP_VIEWS - 1);
        break;
    case '1':
    case '2':
    case '3':
    case '4':
        show_view(ui, (unsigned)(key - '1'));
        break;
    case 'L' - '@': /* Ctrl-L: another program has written there */
        (void)clearok(curscr, TRUE);
        break;
    default:
        moved(ui, key);
        break;
    }
}

/* All that was typed. A terminal that is gone is readable, and there is nothing. */
static void read_keys(struct ui *ui)
{
    bool any = false;

    for (int key = getch(); key != ERR; key = getch()) {
        any = true;
        pressed(ui, key);
    }
    ui->empty_reads = any ? 0 : ui->empty_reads + 1;
    if (ui->empty_reads > EMPTY_READS)
        end(128 + SIGHUP);
}

static void read_signals(void)
{
    char number;

    while (read(signals[0], &number, 1) == 1) {
        if (number == SIGWINCH)
            resize();
        else
            end(128 + number);
    }
}

/* --- the loop ----------------------------------------------------------------------------- */

static void take_sample(struct ui *ui)
{
    struct lh_top_sample *sample = lh_top_feed_take(ui->feed);

    if (sample == NULL)
        return;
    if (ui->screen->paused) /* what is shown stays */
        lh_top_sample_free(sample);
    else
        lh_top_history_add(&ui->history, sample);
}

_Noreturn static void loop(struct ui *ui)
{
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
        {.fd = signals[0], .events = POLLIN}, {.fd = lh_top_feed_fd(ui->feed), .events = POLLIN}};

    for (;;) {
        draw(ui);
        if (poll(fds, sizeof fds / sizeof fds[0], CLOCK_MS) < 0 && errno != EINTR)
            end(LH_EXIT_SYSTEM);
        if (fds[1].revents != 0)
            read_signals();
        if (fds[0].revents != 0)
            read_keys(ui);
        if (fds[2].revents != 0)
            take_sample(ui);
        for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
            fds[i].revents = 0;
    }
}

int lh_top_screen_run(struct lh_cluster *cluster, struct lh_top_screen *screen, uint64_t timeout_ms)
{
    struct ui ui = {.screen = screen};

    ui.feed = lh_top_feed_start(cluster, screen->view, screen->interval_ms, timeout_ms);
    if (ui.feed == NULL || !take_signals())
        return lh_command_error(
            LH_EXIT_SYSTEM, COMMAND, "no thread or descriptor can be had: %s", strerror(errno));
    if (!begin(&ui))
        return lh_command_error(LH_EXIT_SYSTEM, COMMAND, "the terminal cannot be used");
    loop(&ui);
}
