// A library with MPI's standard binary interface (MPI 5.0) on top of MPICH's: what TestStandardABI loads as
// libmpi_abi.so where no machine has a real one. It has the functions that galley calls, no others.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct { int source, tag, error, internal[5]; } Status;      // of the standard
typedef struct { int count_lo, count_hi, source, tag, error; } Inner; // of MPICH

// inner finds MPICH's own function; its calls of itself must not come here.
static void *inner(const char *name) {
	static void *lib;
	if (!lib) lib = dlopen("libmpich.so.12", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	void *f = lib ? dlsym(lib, name) : 0;
	if (!f) abort();
	return f;
}
#define CALL(name, ...) ((int (*)())inner(name))(__VA_ARGS__)

// Handles: constants are translated, all others are MPICH's numbers.
static int comm(intptr_t h) { return h == 0x101 ? 0x44000000 : (int)h; }
static int type(intptr_t h) { return h == 0x247 ? 0x4c00010d : h == 0x210 ? 0x4c00040a : 0x0c000000; }
static int peer(int rank) { return rank == -1 ? -2 : rank; }
static intptr_t request(int r) { return r == 0x2c000000 ? 0x180 : (intptr_t)(uint32_t)r; }
static int requestOf(intptr_t h) { return h == 0x180 ? 0x2c000000 : (int)h; }

int MPI_Abi_get_version(int *major, int *minor) { *major = 1; *minor = 0; return 0; }
int MPI_Get_library_version(char *s, int *n) { return CALL("MPI_Get_library_version", s, n); }
int MPI_Error_string(int code, char *s, int *n) { return CALL("MPI_Error_string", code, s, n); }
int MPI_Initialized(int *flag) { return CALL("MPI_Initialized", flag); }
int MPI_Finalize(void) { return CALL("MPI_Finalize"); }
int MPI_Abort(intptr_t c, int code) { return CALL("MPI_Abort", comm(c), code); }
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
	int code = CALL("MPI_Init_thread", argc, argv, required / 1024 - (required > 2048), provided);
	*provided = *provided == 3 ? 4096 : *provided * 1024;
	return code;
}
int MPI_Comm_dup(intptr_t c, intptr_t *to) {
	int h = 0, code = CALL("MPI_Comm_dup", comm(c), &h);
	*to = (intptr_t)(uint32_t)h;
	return code;
}
int MPI_Comm_set_errhandler(intptr_t c, intptr_t e) {
	return CALL("MPI_Comm_set_errhandler", comm(c), e == 0x142 ? 0x54000001 : 0x54000000);
}
int MPI_Comm_rank(intptr_t c, int *rank) { return CALL("MPI_Comm_rank", comm(c), rank); }
int MPI_Comm_size(intptr_t c, int *size) { return CALL("MPI_Comm_size", comm(c), size); }
int MPI_Comm_get_attr(intptr_t c, int key, void *value, int *found) {
	return CALL("MPI_Comm_get_attr", comm(c), key == 501 ? 0x64400001 : 0x24000000, value, found);
}
int MPI_Isend(const void *b, int n, intptr_t t, int to, int tag, intptr_t c, intptr_t *r) {
	int h = 0, code = CALL("MPI_Isend", b, n, type(t), peer(to), tag, comm(c), &h);
	*r = request(h);
	return code;
}
int MPI_Irecv(void *b, int n, intptr_t t, int from, int tag, intptr_t c, intptr_t *r) {
	int h = 0, code = CALL("MPI_Irecv", b, n, type(t), peer(from), tag, comm(c), &h);
	*r = request(h);
	return code;
}
int MPI_Ibarrier(intptr_t c, intptr_t *r) {
	int h = 0, code = CALL("MPI_Ibarrier", comm(c), &h);
	*r = request(h);
	return code;
}
int MPI_Cancel(intptr_t *r) {
	int h = requestOf(*r);
	return CALL("MPI_Cancel", &h);
}
int MPI_Testsome(int n, intptr_t *r, int *count, int *indices, Status *status) {
	int *h = malloc(sizeof(int) * (n + 1));
	Inner *in = malloc(sizeof(Inner) * (n + 1));
	for (int i = 0; i < n; i++) h[i] = requestOf(r[i]);
	int code = CALL("MPI_Testsome", n, h, count, indices, in);
	for (int i = 0; i < n; i++) r[i] = request(h[i]);
	for (int i = 0; i < *count; i++)
		status[i] = (Status){in[i].source, in[i].tag, in[i].error, {in[i].count_lo, in[i].count_hi}};
	free(h);
	free(in);
	return code;
}
int MPI_Get_count(const Status *s, intptr_t t, int *n) {
	Inner in = {s->internal[0], s->internal[1], s->source, s->tag, s->error};
	return CALL("MPI_Get_count", &in, type(t), n);
}
int MPI_Allreduce(const void *from, void *to, int n, intptr_t t, intptr_t op, intptr_t c) {
	return CALL("MPI_Allreduce", from, to, n, type(t), op == 0x21 ? 0x58000003 : 0x18000000, comm(c));
}
