/*
 * The least that any engine does: sends ready-made messages to PostgreSQL and waits for each answer, over io_uring.
 * It shares no code with pgdrive, so that pgdrive is not compared with itself.
 *
 * `make bench` runs it alternately with pgdrive: the difference is the cost of pgdrive's own work, and the rest is the
 * kernel's. It takes the server from PGHOST, PGPORT, PGUSER and PGDATABASE, which must ask for no password, and prints
 * as pgbench does.
 *
 *     bare_loop select-only|tpcb-like CLIENTS SECONDS SCALE
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { VARIANTS = 4096, ENTRIES = 1024, COMPLETIONS = 32768, BUFFERS = 256, BUFFER_BYTES = 2048, SENT = 1 };

/* `values` are the largest random numbers; those below 0 are multiplied by the scale */
static const struct statement { const char *name, *sql; int values[4]; } SELECT_ONLY[] = {
	{"s", "PREPARE s (int) AS SELECT abalance FROM pgbench_accounts WHERE aid = $1", {-100000}}, {0}
}, TPCB[] = {
	{"BEGIN", NULL, {0}},
	{"a", "PREPARE a (int, int) AS UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2", {5000, -100000}},
	{"s", "PREPARE s (int) AS SELECT abalance FROM pgbench_accounts WHERE aid = $1", {-100000}},
	{"t", "PREPARE t (int, int) AS UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2", {5000, -10}},
	{"b", "PREPARE b (int, int) AS UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2", {5000, -1}},
	{"h", "PREPARE h (int, int, int, int) AS INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) "
	      "VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)", {-10, -1, -100000, 5000}},
	{"END", NULL, {0}}, {0}
};

struct message { unsigned length; char bytes[124]; };
struct client { int statement; char tail[6]; };

static struct io_uring_sqe *entries;
static struct io_uring_cqe *completed;
static struct io_uring_buf_ring *buffers;
static char (*received)[BUFFER_BYTES];
static _Atomic unsigned *queue_tail, *done_head, *done_tail;
static unsigned queue_mask, done_mask, unsubmitted, returned;
static int ring;

static uint64_t draw(void) /* Marsaglia's xorshift */
{
	static uint64_t state = 0x9E3779B97F4A7C15;
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static double now_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static char *put(char *at, const void *bytes, size_t length) { return (char *)memcpy(at, bytes, length) + length; }
static char *put16(char *at, uint16_t n) { n = htons(n); return put(at, &n, 2); }
static char *put32(char *at, uint32_t n) { n = htonl(n); return put(at, &n, 4); }

/* Sets the length of the message that ends at `end`; its type is at `start`. */
static char *end_message(char *start, char *end) { put32(start + 1, end - start - 1); return end; }

static char *query(char *at, const char *sql) { return end_message(at, put(put(at, "Q1234", 5), sql, strlen(sql) + 1)); }

static struct message message(const struct statement *one, unsigned scale)
{
	struct message made;
	char *at = made.bytes;
	if (one->sql == NULL) {
		at = query(at, one->name);
	} else {
		int count = 0;
		while (count < 4 && one->values[count] != 0)
			count++;
		at = put16(put16(put(put(at, "B1234\0", 6), one->name, strlen(one->name) + 1), 0), count);
		for (int number = 0; number < count; number++) {
			int most = one->values[number];
			char text[12];
			int length = sprintf(text, "%u", (unsigned)(draw() % (most < 0 ? -most * scale : (unsigned)most)) + 1);
			at = put(put32(at, length), text, length);
		}
		at = end_message(made.bytes, put16(at, 0));
		at = put(at, "E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04", 15);
	}
	made.length = at - made.bytes;
	return made;
}

static const char *variable(const char *name)
{
	const char *value = getenv(name);
	return value ? value : (errx(1, "%s is not set", name), "");
}

/* Sends a message and reads to the end of its answer; a refusal ends the program. */
static void ask(int fd, const char *bytes, size_t length)
{
	char answer[16384];
	ssize_t count = 0, more;
	if (write(fd, bytes, length) != (ssize_t)length)
		err(1, "could not send");
	do {
		more = read(fd, answer + count, sizeof answer - count);
		if (more <= 0)
			errx(1, "the server closed the connection");
		if (answer[0] == 'E' || (answer[0] == 'R' && count + more >= 9 && memcmp(answer + 5, "\0\0\0", 4) != 0))
			errx(1, "the server refused: it must ask for no password, and have pgbench's tables");
		count += more;
	} while (count < 6 || memcmp(answer + count - 6, "Z\0\0\0\x05", 5) != 0);
}

static int connected(const struct statement *statements)
{
	const char *host = variable("PGHOST");
	char bytes[1024], *at = put32(bytes + 4, 3 << 16);
	int port = atoi(variable("PGPORT")), yes = 1;
	struct sockaddr_un local = {.sun_family = AF_UNIX};
	struct sockaddr_in remote = {.sin_family = AF_INET, .sin_port = htons(port)};
	int is_local = host[0] == '/', fd = socket(is_local ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
	snprintf(local.sun_path, sizeof local.sun_path, "%s/.s.PGSQL.%d", host, port);
	if (!is_local && inet_pton(AF_INET, host, &remote.sin_addr) != 1)
		errx(1, "PGHOST is neither a folder nor an IPv4 address");
	if (!is_local)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
	if (is_local ? connect(fd, (struct sockaddr *)&local, sizeof local)
	             : connect(fd, (struct sockaddr *)&remote, sizeof remote))
		err(1, "could not connect");
	at += sprintf(at, "user%c%.200s%cdatabase%c%.200s%c", 0, variable("PGUSER"), 0, 0, variable("PGDATABASE"), 0) + 1;
	put32(bytes, at - bytes);
	at[-1] = 0;
	ask(fd, bytes, at - bytes);
	for (; statements->name != NULL; statements++)
		if (statements->sql != NULL)
			ask(fd, bytes, query(bytes, statements->sql) - bytes);
	return fd;
}

static void give_back(unsigned id)
{
	struct io_uring_buf *place = &buffers->bufs[returned++ & (BUFFERS - 1)];
	place->addr = (uintptr_t)received[id];
	place->len = BUFFER_BYTES;
	place->bid = id;
}

static void *shared(size_t bytes, off_t offset)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, offset);
	return memory == MAP_FAILED ? (err(1, "could not map the ring"), NULL) : memory;
}

static void set_up(int *sockets, unsigned clients)
{
	struct io_uring_params params = {.cq_entries = COMPLETIONS, .flags = IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL
		| IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_DEFER_TASKRUN};
	if ((ring = syscall(SYS_io_uring_setup, ENTRIES, &params)) < 0)
		err(1, "could not set up io_uring");
	/* the array of the submission queue comes last */
	char *queues = shared(params.sq_off.array + params.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
	entries = shared(params.sq_entries * sizeof *entries, IORING_OFF_SQES);
	queue_tail = (void *)(queues + params.sq_off.tail);
	queue_mask = params.sq_entries - 1;
	done_head = (void *)(queues + params.cq_off.head);
	done_tail = (void *)(queues + params.cq_off.tail);
	done_mask = params.cq_entries - 1;
	completed = (void *)(queues + params.cq_off.cqes);
	for (unsigned at = 0; at < params.sq_entries; at++)
		((unsigned *)(queues + params.sq_off.array))[at] = at;
	buffers = aligned_alloc(4096, BUFFERS * (sizeof(struct io_uring_buf) + BUFFER_BYTES));
	received = (void *)(buffers->bufs + BUFFERS);
	struct io_uring_buf_reg group = {.ring_addr = (uintptr_t)buffers, .ring_entries = BUFFERS};
	if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, sockets, clients) < 0
	    || syscall(SYS_io_uring_register, ring, IORING_REGISTER_PBUF_RING, &group, 1) < 0)
		err(1, "could not register files and buffers");
	for (unsigned id = 0; id < BUFFERS; id++)
		give_back(id);
}

/* Submits what is queued; waits for `wanted` completions. */
static void enter(unsigned wanted)
{
	atomic_store_explicit((_Atomic uint16_t *)&buffers->tail, returned, memory_order_release);
	long taken = syscall(SYS_io_uring_enter, ring, unsubmitted, wanted, IORING_ENTER_GETEVENTS, NULL, 0);
	if (taken < 0 && errno != EINTR)
		err(1, "could not enter io_uring");
	unsubmitted -= taken > 0 ? taken : 0;
}

static void request(int opcode, unsigned client, const struct message *sent)
{
	if (unsubmitted > queue_mask)
		enter(0);
	unsigned tail = atomic_load_explicit(queue_tail, memory_order_relaxed);
	struct io_uring_sqe entry = {.opcode = opcode, .flags = IOSQE_FIXED_FILE, .fd = client};
	if (sent != NULL) {
		entry.flags |= IOSQE_CQE_SKIP_SUCCESS;
		entry.addr = (uintptr_t)sent->bytes;
		entry.len = sent->length;
		entry.msg_flags = MSG_NOSIGNAL | MSG_WAITALL;
		entry.user_data = SENT;
	} else {
		entry.flags |= IOSQE_BUFFER_SELECT;
		entry.ioprio = IORING_RECV_MULTISHOT;
		entry.user_data = (uint64_t)client << 1;
	}
	entries[tail & queue_mask] = entry;
	atomic_store_explicit(queue_tail, tail + 1, memory_order_release);
	unsubmitted++;
}

int main(int count, char **words)
{
	if (count != 5 || atoi(words[2]) < 1 || atoi(words[3]) < 1 || atoi(words[4]) < 1)
		errx(2, "usage: bare_loop select-only|tpcb-like CLIENTS SECONDS SCALE");
	const struct statement *statements = strcmp(words[1], "select-only") == 0 ? SELECT_ONLY : TPCB;
	unsigned clients = atoi(words[2]), live = clients, scale = atoi(words[4]);
	int last = 0, is_over = 0;
	while (statements[last + 1].name != NULL)
		last++;
	struct message(*messages)[VARIANTS] = malloc((last + 1) * sizeof *messages);
	for (int number = 0; number <= last; number++)
		for (int variant = 0; variant < VARIANTS; variant++)
			messages[number][variant] = message(&statements[number], scale);
	struct client *all = calloc(clients, sizeof *all);
	int *sockets = calloc(clients, sizeof *sockets);
	double began = now_s();
	for (unsigned each = 0; each < clients; each++)
		sockets[each] = connected(statements);
	double start = now_s();
	set_up(sockets, clients);
	for (unsigned each = 0; each < clients; each++) {
		request(IORING_OP_RECV, each, NULL);
		request(IORING_OP_SEND, each, &messages[0][draw() % VARIANTS]);
	}
	unsigned long transactions = 0;
	while (live > 0) {
		enter(1);
		is_over |= now_s() - start >= atoi(words[3]);
		unsigned head = atomic_load_explicit(done_head, memory_order_relaxed);
		unsigned end = atomic_load_explicit(done_tail, memory_order_acquire);
		for (; head != end; head++) {
			struct io_uring_cqe *one = &completed[head & done_mask];
			unsigned token = one->user_data >> 1, id = one->flags >> IORING_CQE_BUFFER_SHIFT;
			struct client *client = &all[token];
			if (one->user_data & SENT || (one->res <= 0 && one->res != -ENOBUFS))
				errx(1, "a request failed: %s", strerror(-one->res));
			if (!(one->flags & IORING_CQE_F_MORE))
				request(IORING_OP_RECV, token, NULL);
			if (one->res < 0)
				continue;
			int fresh = one->res < 6 ? one->res : 6;
			memmove(client->tail, client->tail + fresh, 6 - fresh);
			memcpy(client->tail + 6 - fresh, received[id] + one->res - fresh, fresh);
			give_back(id);
			if (memcmp(client->tail, "Z\0\0\0\x05", 5) != 0)
				continue;
			client->tail[0] = 0;
			client->statement = client->statement == last ? 0 : client->statement + 1;
			transactions += client->statement == 0;
			if (is_over && client->statement == 0)
				live--;
			else
				request(IORING_OP_SEND, token, &messages[client->statement][draw() % VARIANTS]);
		}
		atomic_store_explicit(done_head, head, memory_order_release);
	}
	printf("number of transactions actually processed: %lu\ninitial connection time = %.3f ms\ntps = %.6f\n", transactions,
	       (start - began) * 1e3, transactions / (now_s() - start));
}
