/* Preloaded into mpirun by the launcher: a socket that would be bound to all interfaces is bound to the loopback
 * interface. Open MPI 4.1's out-of-band listener has no option for this. In mpirun, not in a script around it, the
 * library removes itself from LD_PRELOAD, so that ranks do not load it. The program embeds the built file
 * (launch_loopback.cpp). */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_mpirun(void) {
  const char* const names[] = {"mpirun", "orterun", "mpiexec"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i)
    if (strncmp(program_invocation_short_name, names[i], strlen(names[i])) == 0) return 1;
  return 0;
}

__attribute__((constructor)) static void leave_environment(void) {
  if (!is_mpirun()) return;
  const char* all = getenv("LD_PRELOAD");
  const char* others = all ? strchr(all, ':') : NULL; /* ours is the first */
  if (others)
    setenv("LD_PRELOAD", others + 1, 1);
  else
    unsetenv("LD_PRELOAD");
}

__attribute__((visibility("default"))) int bind(int descriptor, const struct sockaddr* address, socklen_t size) {
  if (address && address->sa_family == AF_INET && size >= sizeof(struct sockaddr_in)) {
    struct sockaddr_in local;
    memcpy(&local, address, sizeof(local));
    if (local.sin_addr.s_addr == htonl(INADDR_ANY)) local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return (int)syscall(SYS_bind, descriptor, &local, sizeof(local));
  }
  if (address && address->sa_family == AF_INET6 && size >= sizeof(struct sockaddr_in6)) {
    struct sockaddr_in6 local;
    memcpy(&local, address, sizeof(local));
    if (IN6_IS_ADDR_UNSPECIFIED(&local.sin6_addr)) local.sin6_addr = in6addr_loopback;
    return (int)syscall(SYS_bind, descriptor, &local, sizeof(local));
  }
  return (int)syscall(SYS_bind, descriptor, address, size);
}
