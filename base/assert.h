/* Assertions for our own mistakes. They stay on in release builds: a server that has lost track of
 * itself must stop before it answers. Never assert on bytes from a network, a disk or a command
 * line: those get an error. */
#pragma once

#define LH_ASSERT(condition)                                                                       \
    ((condition) ? (void)0 : lh_assert_failed(#condition, __FILE__, __LINE__))

#define LH_UNREACHABLE() lh_assert_failed("unreachable", __FILE__, __LINE__)

_Noreturn void lh_assert_failed(const char *condition, const char *file, int line);
