/* A wall clock that is CLOCK_SHIFT_S seconds off from CLOCK_SHIFT_AFTER_S seconds after the start of a process:
   loaded with LD_PRELOAD, so that every language sees it. Clocks that count from the start of the machine stay. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static int (*real_clock)(clockid_t, struct timespec *);
static double started_s;

static double monotonic_s(void) {
    struct timespec now;
    real_clock(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

__attribute__((constructor)) static void start(void) {
    real_clock = dlsym(RTLD_NEXT, "clock_gettime");
    started_s = monotonic_s();
}

static long shift_s(void) {
    const char *shift = getenv("CLOCK_SHIFT_S"), *after = getenv("CLOCK_SHIFT_AFTER_S");
    return monotonic_s() - started_s < (after ? atof(after) : 0.0) ? 0 : atol(shift ? shift : "0");
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!real_clock) start();
    int result = real_clock(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += shift_s();
    return result;
}

time_t time(time_t *where) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where) *where = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}
