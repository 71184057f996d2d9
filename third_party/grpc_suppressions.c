/* What the thread sanitizer is told about gRPC. It and what it stands on are not instrumented:
 * their locks are invisible, and what they do through intercepted libc calls alone looks like
 * races. Linked into every program that uses gRPC, so that no run needs options for it. */
#ifdef __SANITIZE_THREAD__

const char *__tsan_default_suppressions(void);

const char *__tsan_default_suppressions(void)
{
    return "called_from_lib:libgrpc.so\n"
           "called_from_lib:libgpr.so\n"
           "race:libgrpc.so\n"
           "race:libgpr.so\n"
           "race:libabsl_\n"
           "race:libcrypto.so\n"
           "race:libssl.so\n"
           "mutex:libabsl_\n";
}

#else

/* C wants something in every file. */
typedef int lh_nothing_to_suppress;

#endif
