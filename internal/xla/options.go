package xla

import (
	"encoding/binary"
	"maps"
	"slices"
)

// options are the options of compiling a program.
type options struct {
	// devices are the plugin's ids of the devices that run the program together; if empty it can run on any one.
	devices []int
	// overrides are XLA's flags for this program, by name.
	overrides map[string]bool
}

// bytes returns the options as a CompileOptionsProto.
func (o options) bytes() []byte {
	many := len(o.devices) > 1
	var build, out wire
	build = build.number(1, -1) // device_ordinal: none
	// Devices are replicas of one partition: XLA's partitioner stays off, since programs are already
	// partitioned.
	build = build.number(4, int64(max(1, len(o.devices)))).number(5, 1)
	if many {
		build = build.bytes(9, o.assignment())
	}
	out = out.bytes(3, build)
	if !many {
		out = out.number(4, 1) // compile_portable_executable
	}
	for _, name := range slices.Sorted(maps.Keys(o.overrides)) {
		var on int64
		if o.overrides[name] {
			on = 1
		}
		out = out.bytes(7, wire(nil).bytes(1, []byte(name)).bytes(2, wire(nil).number(2, on)))
	}
	return out
}

// assignment returns the devices as a DeviceAssignmentProto: a list of replicas for the one partition.
func (o options) assignment() wire {
	var ids []byte
	for _, id := range o.devices {
		ids = binary.AppendUvarint(ids, uint64(id))
	}
	return wire(nil).number(1, int64(len(o.devices))).number(2, 1).bytes(3, wire(nil).bytes(1, ids))
}

// wire is an encoded protocol buffer message.
type wire []byte

func (w wire) number(field int, x int64) wire {
	return binary.AppendUvarint(binary.AppendUvarint(w, uint64(field)<<3), uint64(x))
}

func (w wire) bytes(field int, x []byte) wire {
	w = binary.AppendUvarint(binary.AppendUvarint(w, uint64(field)<<3|2), uint64(len(x)))
	return append(w, x...)
}
