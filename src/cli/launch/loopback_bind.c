/* Preloaded into mpirun by the launcher. Provides two features that Open MPI 4.1 lacks:
 *   bind    binds a socket to the loopback interface if it would be bound to all interfaces
 *   accept  closes a connection of another user, because mpirun trusts the user id in a message
 * Inside mpirun, but not in a wrapper script, the library removes itself from LD_PRELOAD, so that ranks do not load it.
 * The strobe program embeds the compiled library (mpirun.cpp). */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
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
  const char* others = all ? strchr(all, ':') : NULL; /* this library is the first */
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

/* Finds the peer's socket in /proc/net/tcp (its remote address is `own`) and compares its user id with this process's.
 * Only established sockets count, since a socket that its process has closed has user id 0 there. */
static int is_own_user(const struct sockaddr_in* own, const struct sockaddr_in* peer) {
  FILE* const table = fopen("/proc/net/tcp", "re");
  if (!table) return 0;
  int found = 0;
  char line[512];
  while (!found && fgets(line, sizeof(line), table)) {
    unsigned local, local_port, remote, remote_port, state, user;
    const int fields = sscanf(line, " %*u: %x:%x %x:%x %x %*x:%*x %*x:%*x %*x %u", &local, &local_port, &remote,
                              &remote_port, &state, &user);
    found = fields == 6 && local == peer->sin_addr.s_addr && local_port == ntohs(peer->sin_port) &&
            remote == own->sin_addr.s_addr && remote_port == ntohs(own->sin_port) && state == 1 && user == geteuid();
  }
  fclose(table);
  return found;
}

/* Returns 1 for Unix sockets and for IPv4 connections from a process of the same user. Ranks connect by IPv4 only, so
 * IPv6 connections are rejected. */
static int is_allowed(int descriptor) {
  struct sockaddr_storage own, peer;
  socklen_t own_size = sizeof(own), peer_size = sizeof(peer);
  if (getsockname(descriptor, (struct sockaddr*)&own, &own_size) != 0) return 0;
  if (own.ss_family == AF_UNIX) return 1;
  if (own.ss_family != AF_INET || getpeername(descriptor, (struct sockaddr*)&peer, &peer_size) != 0) return 0;
  return is_own_user((const struct sockaddr_in*)&own, (const struct sockaddr_in*)&peer);
}

__attribute__((visibility("default"))) int accept4(int listener, struct sockaddr* address, socklen_t* size, int flags) {
  const int descriptor = (int)syscall(SYS_accept4, listener, address, size, flags);
  if (descriptor < 0 || is_allowed(descriptor)) return descriptor;
  close(descriptor);
  errno = EAGAIN;
  return -1;
}

__attribute__((visibility("default"))) int accept(int listener, struct sockaddr* address, socklen_t* size) {
  return accept4(listener, address, size, 0);
}
