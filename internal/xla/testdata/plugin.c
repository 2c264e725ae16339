// A plugin that knows the interface and computes nothing: a run returns copies of its arguments. It checks how it is called
// against the header that it is compiled with.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt_c_api.h"

#define DEVICES 4
#define MOST 16

struct PJRT_Error { char text[1000]; };
struct PJRT_Event { int x; };
struct PJRT_Device { int id; };
struct PJRT_DeviceDescription { int id; };
struct PJRT_Client { int devices, here; };
struct PJRT_LoadedExecutable { int devices, old; };
struct PJRT_Executable { int devices, old; };
struct PJRT_SerializedExecutable { char text[20]; };
struct PJRT_Buffer { PJRT_Device *device; size_t bytes; int gone; char *data; };

static PJRT_Device devices[MOST];
static PJRT_DeviceDescription descriptions[MOST];
static PJRT_Device *list[MOST];
static PJRT_Client client;
static int buffers, launches;

static PJRT_Error *fail(const char *text) {
	PJRT_Error *e = calloc(1, sizeof *e);
	snprintf(e->text, sizeof e->text, "%s", text);
	return e;
}

// CHECK that arguments are at least as large as the header says.
#define ARGS(T) if (a->struct_size < T##_Args_STRUCT_SIZE) return fail(#T ": arguments are too small")
#define DEFINE(T) static PJRT_Error *T##_fake(T##_Args *a)

static void PJRT_Error_Destroy_fake(PJRT_Error_Destroy_Args *a) { free(a->error); }
static void PJRT_Error_Message_fake(PJRT_Error_Message_Args *a) { a->message = a->error->text; a->message_size = strlen(a->error->text); }
DEFINE(PJRT_Error_GetCode) { a->code = PJRT_Error_Code_INTERNAL; return NULL; }
DEFINE(PJRT_Plugin_Initialize) { return NULL; }
DEFINE(PJRT_Plugin_Attributes) { a->num_attributes = 0; return NULL; }
DEFINE(PJRT_Event_Destroy) { free(a->event); return NULL; }
DEFINE(PJRT_Event_Await) { ARGS(PJRT_Event_Await); return NULL; }

static PJRT_Error *made(PJRT_Error_Code code, const char *text, size_t size) {
	PJRT_Error *e = calloc(1, sizeof *e);
	snprintf(e->text, sizeof e->text, "code %d: %.*s", code, (int)size, text);
	return e;
}
static PJRT_CallbackError make_error = made;

// meet is what nodes do to find each other: each puts its name and gets those of all.
static PJRT_Error *meet(PJRT_Client_Create_Args *a, int node, int nodes) {
	char key[40], text[40];
	PJRT_KeyValuePutCallback_Args put = {PJRT_KeyValuePutCallback_Args_STRUCT_SIZE, NULL, key, 0, text, 0, &make_error, a->kv_put_user_arg};
	put.key_size = snprintf(key, sizeof key, "node %d", node), put.value_size = snprintf(text, sizeof text, "I am %d", node);
	PJRT_Error *e = a->kv_put_callback(&put);
	for (int i = 0; e == NULL && i < nodes; i++) {
		PJRT_KeyValueGetCallback_Args get = {.struct_size = PJRT_KeyValueGetCallback_Args_STRUCT_SIZE, .key = key, .timeout_in_ms = 600000,
			.callback_error = &make_error, .user_arg = a->kv_get_user_arg};
		get.key_size = snprintf(key, sizeof key, "node %d", i);
		if ((e = a->kv_get_callback(&get)) != NULL) return e;
		snprintf(text, sizeof text, "I am %d", i);
		if (get.value_size != strlen(text) || memcmp(get.value, text, get.value_size)) return fail("another node's value is wrong");
		get.value_deleter_callback(get.value);
	}
	if (e != NULL) return e;
	PJRT_KeyValueTryGetCallback_Args try = {.struct_size = PJRT_KeyValueTryGetCallback_Args_STRUCT_SIZE, .key = "nobody", .key_size = 6,
		.callback_error = &make_error, .user_arg = a->kv_try_get_user_arg};
	if ((e = a->kv_try_get_callback(&try)) == NULL) return fail("a key that nobody put has a value");
	int found = strncmp(e->text, "code 5:", 7) == 0;
	free(e);
	return found ? NULL : fail("a key that nobody put: want code 5, not found");
}

DEFINE(PJRT_Client_Create) {
	int node = -1, nodes = 0;
	for (size_t i = 0; i < a->num_options; i++) {
		if (!strncmp(a->create_options[i].name, "node_id", 7)) node = a->create_options[i].int64_value;
		if (!strncmp(a->create_options[i].name, "num_nodes", 9)) nodes = a->create_options[i].int64_value;
	}
	if (node >= 0) {
		if (a->kv_get_callback == NULL) return fail("no key-value callbacks");
		PJRT_Error *e = meet(a, node, nodes);
		if (e != NULL) return e;
	}
	client.devices = client.here = DEVICES;
	for (size_t i = 0; i < a->num_options; i++)
		if (!strncmp(a->create_options[i].name, "num_nodes", 9)) client.devices = a->create_options[i].int64_value, client.here = 1;
	for (int i = 0; i < MOST; i++) {
		devices[i].id = descriptions[i].id = 10 + i;
		list[i] = &devices[i];
	}
	a->client = &client;
	return NULL;
}
DEFINE(PJRT_Client_Destroy) { return buffers == 0 ? NULL : fail("buffers are left"); }
DEFINE(PJRT_Client_PlatformName) { a->platform_name = "fake"; a->platform_name_size = 4; return NULL; }
DEFINE(PJRT_Client_PlatformVersion) { a->platform_version = "1"; a->platform_version_size = 1; return NULL; }
DEFINE(PJRT_Client_ProcessIndex) { a->process_index = 0; return NULL; }
DEFINE(PJRT_Client_Devices) { ARGS(PJRT_Client_Devices); a->devices = list; a->num_devices = client.devices; return NULL; }
DEFINE(PJRT_Client_AddressableDevices) { a->addressable_devices = list; a->num_addressable_devices = client.here; return NULL; }
DEFINE(PJRT_Device_LocalHardwareId) { a->local_hardware_id = a->device->id; return NULL; }
DEFINE(PJRT_Device_GetDescription) { ARGS(PJRT_Device_GetDescription); a->device_description = &descriptions[a->device->id - 10]; return NULL; }
DEFINE(PJRT_Device_IsAddressable) { ARGS(PJRT_Device_IsAddressable); a->is_addressable = a->device->id - 10 < client.here; return NULL; }
DEFINE(PJRT_DeviceDescription_Id) { ARGS(PJRT_DeviceDescription_Id); a->id = a->device_description->id; return NULL; }
static PJRT_NamedValue attributes[] = {
	{.name = "compute_capability", .name_size = 18, .type = PJRT_NamedValue_kString, .string_value = "9.0", .value_size = 3},
	{.name = "core_count", .name_size = 10, .type = PJRT_NamedValue_kInt64, .int64_value = 114, .value_size = 1},
};
DEFINE(PJRT_DeviceDescription_Attributes) {
	ARGS(PJRT_DeviceDescription_Attributes);
	a->num_attributes = sizeof attributes / sizeof *attributes;
	a->attributes = attributes;
	return NULL;
}
DEFINE(PJRT_DeviceDescription_ProcessIndex) { a->process_index = 0; return NULL; }
DEFINE(PJRT_DeviceDescription_DebugString) { ARGS(PJRT_DeviceDescription_DebugString); a->debug_string = "fake:0"; a->debug_string_size = 6; return NULL; }

// A program that has the text refuse in it is refused, with the options that it came with in hexadecimal.
DEFINE(PJRT_Client_Compile) {
	ARGS(PJRT_Client_Compile);
	if (a->program->struct_size < PJRT_Program_STRUCT_SIZE) return fail("PJRT_Program is too small");
	if (a->program->format_size != 4 || memcmp(a->program->format, "mlir", 4)) return fail("format");
	char *code = strndup(a->program->code, a->program->code_size), *at = strstr(code, "mhlo.num_replicas = ");
	int triton = strstr(code, "gpu.triton") != NULL, ptx = strstr(code, "gpu.ptx") != NULL, refuse = strstr(code, "@refuse") != NULL, replicas = at == NULL ? 0 : atoi(at + strlen("mhlo.num_replicas = "));
	free(code);
	if (triton) return fail("INTERNAL: Failed to parse Triton module");
	if (ptx) return fail("INTERNAL: no kernels in PTX");
	if (refuse) {
		char text[900] = "INTERNAL: it is refused\noptions ";
		size_t n = strlen(text);
		for (size_t i = 0; i < a->compile_options_size && n < sizeof text - 3; i++)
			n += sprintf(text + n, "%02x", (unsigned char)a->compile_options[i]);
		return fail(text);
	}
	a->executable = calloc(1, sizeof *a->executable);
	a->executable->devices = replicas;
	return NULL;
}
DEFINE(PJRT_LoadedExecutable_Destroy) { ARGS(PJRT_LoadedExecutable_Destroy); free(a->executable); return NULL; }
DEFINE(PJRT_LoadedExecutable_GetExecutable) {
	ARGS(PJRT_LoadedExecutable_GetExecutable);
	a->executable = calloc(1, sizeof *a->executable);
	a->executable->devices = a->loaded_executable->devices; a->executable->old = a->loaded_executable->old;
	return NULL;
}
DEFINE(PJRT_Executable_Destroy) { ARGS(PJRT_Executable_Destroy); free(a->executable); return NULL; }
DEFINE(PJRT_Executable_GetCompiledMemoryStats) {
	ARGS(PJRT_Executable_GetCompiledMemoryStats);
	a->argument_size_in_bytes = 100; a->output_size_in_bytes = 70; a->alias_size_in_bytes = 20; a->temp_size_in_bytes = a->executable->old ? 8 : 7;
	return NULL;
}
static void release(PJRT_SerializedExecutable *x) { free(x); }
DEFINE(PJRT_Executable_Serialize) {
	ARGS(PJRT_Executable_Serialize);
	PJRT_SerializedExecutable *x = a->serialized_executable = calloc(1, sizeof *x);
	a->serialized_bytes = x->text; a->serialized_executable_deleter = release;
	a->serialized_bytes_size = sprintf(x->text, "fake %d", a->executable->devices);
	return NULL;
}
DEFINE(PJRT_Executable_DeserializeAndLoad) {
	ARGS(PJRT_Executable_DeserializeAndLoad);
	if (a->serialized_executable_size < 6 || memcmp(a->serialized_executable, "fake ", 5)) return fail("it is no program");
	a->loaded_executable = calloc(1, sizeof *a->loaded_executable);
	a->loaded_executable->devices = a->serialized_executable[5] - '0'; a->loaded_executable->old = 1;
	return NULL;
}

static PJRT_Buffer *make(PJRT_Device *device, const void *data, size_t bytes) {
	PJRT_Buffer *b = calloc(1, sizeof *b);
	b->device = device; b->bytes = bytes; b->data = malloc(bytes + 1);
	memcpy(b->data, data, bytes);
	buffers++;
	return b;
}
DEFINE(PJRT_Client_BufferFromHostBuffer) {
	ARGS(PJRT_Client_BufferFromHostBuffer);
	if (a->type != PJRT_Buffer_Type_F64) return fail("the fake has f64 only");
	size_t n = 8;
	for (size_t i = 0; i < a->num_dims; i++) n *= a->dims[i];
	a->buffer = make(a->device, a->data, n);
	a->done_with_host_buffer = calloc(1, sizeof(PJRT_Event));
	return NULL;
}
DEFINE(PJRT_Buffer_Destroy) { ARGS(PJRT_Buffer_Destroy); buffers--; free(a->buffer->data); free(a->buffer); return NULL; }
DEFINE(PJRT_Buffer_ToHostBuffer) {
	ARGS(PJRT_Buffer_ToHostBuffer);
	if (a->src->gone) return fail("it was donated");
	if (a->dst_size != a->src->bytes) return fail("size");
	memcpy(a->dst, a->src->data, a->dst_size);
	a->event = calloc(1, sizeof(PJRT_Event));
	return NULL;
}

DEFINE(PJRT_LoadedExecutable_Execute) {
	ARGS(PJRT_LoadedExecutable_Execute);
	PJRT_ExecuteOptions *o = a->options;
	if (o->struct_size < PJRT_ExecuteOptions_STRUCT_SIZE) return fail("PJRT_ExecuteOptions is too small");
	int many = a->executable->devices > 1, here = a->executable->devices < client.here ? a->executable->devices : client.here;
	if ((int)a->num_devices != here) return fail("devices that the program was not compiled for");
	if (many != (a->execute_device == NULL)) return fail("one device of many, or none of one");
	if (many && o->launch_id != ++launches) return fail("launch");
	for (size_t d = 0; d < a->num_devices; d++) {
		PJRT_Device *at = many ? list[d] : a->execute_device;
		for (size_t i = 0; i < a->num_args; i++) {
			PJRT_Buffer *b = a->argument_lists[d][i];
			if (b->gone) return fail("an argument was donated");
			if (b->device != at) return fail("an argument lies on another device");
			a->output_lists[d][i] = make(at, b->data, b->bytes);
			b->gone = 1;
			for (size_t k = 0; k < o->num_non_donatable_input_indices; k++)
				if (o->non_donatable_input_indices[k] == (int64_t)i) b->gone = 0;
		}
	}
	return NULL;
}

const PJRT_Api *GetPjrtApi(void) {
	static PJRT_Api api;
	api.struct_size = PJRT_Api_STRUCT_SIZE;
	api.pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
	api.pjrt_api_version.major_version = PJRT_API_MAJOR;
	api.pjrt_api_version.minor_version = PJRT_API_MINOR;
#define USE(T) api.T = T##_fake
	USE(PJRT_Error_Destroy); USE(PJRT_Error_Message); USE(PJRT_Error_GetCode); USE(PJRT_Plugin_Initialize); USE(PJRT_Plugin_Attributes);
	USE(PJRT_Event_Destroy); USE(PJRT_Event_Await); USE(PJRT_Client_Create); USE(PJRT_Client_Destroy); USE(PJRT_Client_PlatformName);
	USE(PJRT_Client_PlatformVersion); USE(PJRT_Client_ProcessIndex); USE(PJRT_Client_Devices); USE(PJRT_Client_AddressableDevices);
	USE(PJRT_Device_LocalHardwareId); USE(PJRT_Device_GetDescription); USE(PJRT_Device_IsAddressable); USE(PJRT_DeviceDescription_Id);
	USE(PJRT_DeviceDescription_ProcessIndex); USE(PJRT_DeviceDescription_DebugString); USE(PJRT_DeviceDescription_Attributes); USE(PJRT_Client_Compile);
	USE(PJRT_LoadedExecutable_Destroy); USE(PJRT_LoadedExecutable_GetExecutable); USE(PJRT_Executable_Destroy);
	USE(PJRT_Executable_GetCompiledMemoryStats); USE(PJRT_Client_BufferFromHostBuffer); USE(PJRT_Buffer_Destroy);
	USE(PJRT_Buffer_ToHostBuffer); USE(PJRT_LoadedExecutable_Execute); USE(PJRT_Executable_Serialize); USE(PJRT_Executable_DeserializeAndLoad);
	return &api;
}
