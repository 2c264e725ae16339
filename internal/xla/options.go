package xla

import (
	"encoding/binary"
	"maps"
	"slices"
)

// options says for what a program is compiled.
type options struct {
	// devices is the plugin's numbers of the devices that run the program together; one can be moved to any.
	devices []int
	// overrides is flags of XLA's own for this program, by name.
	overrides map[string]bool
}

// bytes returns the options as a CompileOptionsProto.
func (o options) bytes() []byte {
	many := len(o.devices) > 1
	var build, out wire
	build = build.number(1, -1) // device_ordinal: none
	// They are replicas, and there is one partition: XLA's own partitioner stays off, programs are partitioned.
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

// wire is a message of protocol buffers as it is sent: fields by their numbers.
type wire []byte

func (w wire) number(field int, x int64) wire {
	return binary.AppendUvarint(binary.AppendUvarint(w, uint64(field)<<3), uint64(x))
}

func (w wire) bytes(field int, x []byte) wire {
	w = binary.AppendUvarint(binary.AppendUvarint(w, uint64(field)<<3|2), uint64(len(x)))
	return append(w, x...)
}
