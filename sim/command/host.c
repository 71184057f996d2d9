#include "sim/command/host.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

static volatile sig_atomic_t interrupted;

uint64_t lh_sim_host_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void remember(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

void lh_sim_host_catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = remember, .sa_flags = (int)SA_RESETHAND};

    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

bool lh_sim_host_interrupted(void)
{
    return interrupted != 0;
}

const char *lh_sim_host_duration(char text[24], uint64_t ns)
{
    uint64_t tenths = ns / 100000000, s = ns / 1000000000;

    if (s < 60)
        (void)snprintf(text, 24, "%" PRIu64 ".%" PRIu64 " s", s, tenths % 10);
    else if (s < 3600)
        (void)snprintf(text, 24, "%" PRIu64 "m%02" PRIu64 "s", s / 60, s % 60);
    else
        (void)snprintf(text, 24, "%" PRIu64 "h%02" PRIu64 "m", s / 3600, s / 60 % 60);
    return text;
}

const char *lh_sim_host_count(char text[24], double count)
{
    if (count >= 1e9)
        (void)snprintf(text, 24, "%.2fG", count / 1e9);
    else if (count >= 1e6)
        (void)snprintf(text, 24, "%.1fM", count / 1e6);
    else if (count >= 1e4)
        (void)snprintf(text, 24, "%.1fk", count / 1e3);
    else
        (void)snprintf(text, 24, "%.0f", count);
    return text;
}
