/* A plain TCP relay, with which benchmarks/proxy.py compares pgdyno's proxy: relay PORT SERVER_PORT, both on 127.0.0.1.
 * A process for each connection copies what either side sends. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in at(const char *port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

static void copy(int client, int server) {
  struct pollfd ends[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
  static char buffer[65536];
  while (poll(ends, 2, -1) > 0)
    for (int from = 0; from < 2; from++)
      if (ends[from].revents) {
        ssize_t bytes = recv(ends[from].fd, buffer, sizeof buffer, 0);
        if (bytes <= 0 || send(ends[1 - from].fd, buffer, bytes, MSG_NOSIGNAL) != bytes) return;
      }
}

int main(int count, char **words) {
  int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in here = at(words[1]), there = at(words[2]);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (count != 3 || bind(listener, (void *)&here, sizeof here) || listen(listener, 128)) return 1;
  signal(SIGCHLD, SIG_IGN);
  for (;;) {
    int client = accept(listener, NULL, NULL);
    if (client >= 0 && fork() == 0) {
      int server = socket(AF_INET, SOCK_STREAM, 0);
      setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      if (connect(server, (void *)&there, sizeof there) == 0) copy(client, server);
      _exit(0);
    }
    close(client);
  }
}
